"""The processes behind `gym.server.workers`: a forkserver that has a server's module loaded, and forks workers from it.

Run as a file, and with nothing but the standard library: a start costs what the server's own module costs.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import traceback
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any

HEADER = 4
MAX_FRAME = 256 * 1024 * 1024


def main(module: str, folder: str, memory: int, control_fd: int) -> None:
    """The forkserver: one order a line, one answer a line, until its server goes away."""
    os.dup2(2, 1)  # what the code prints belongs in the server's log
    sys.stdout = sys.stderr
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # meant for the server, which drains; handlers do not outlive an exec
        signal.signal(number, _nothing)
    control = socket.socket(fileno=control_fd)
    sys.path.insert(0, folder)
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 (an author's module: its server reports it)
        traceback.print_exc()
        _tell(control, {"error": _explain(error)})
        return
    gc.collect()
    gc.freeze()  # workers share these pages as long as no collection writes to them
    _tell(control, {"ready": True})
    _serve_orders(control, loaded, memory)


def _serve_orders(control: socket.socket, loaded: ModuleType, memory: int) -> None:
    living: set[int] = set()
    waiting: list[int] = []  # descriptors that came before their order was whole
    text = b""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 65536, 16)
        waiting += descriptors
        if not data:
            break
        *orders, text = (text + data).split(b"\n")
        for order in orders:
            if order == b"fork":
                channel, stack = waiting.pop(0), waiting.pop(0)
                pid = _fork_worker(channel, stack, control, loaded, memory)
                living.add(pid)
                _tell(control, {"forked": pid})
            else:
                pid = int(order)
                living.discard(pid)
                _tell(control, {"pid": pid, "status": _reap(pid)})
    for pid in living:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _reap(pid: int) -> int:
    """Its wait status. Nothing else waits for it: until now its number could not become another process's."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def _fork_worker(fd: int, stack: int, control: socket.socket, loaded: ModuleType, memory: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's idle threads stay behind
        pid = os.fork()
    with suppress(OSError):  # two may try: a worker ends together with what it started
        os.setpgid(pid, pid or os.getpid())
    if pid:
        os.close(fd)
        os.close(stack)
        return pid
    try:
        control.close()
        _work(socket.socket(fileno=fd), stack, loaded, memory)
        os._exit(0)
    except BaseException:  # noqa: BLE001 (the forkserver's own stack must not go on in its child)
        traceback.print_exc()
    finally:
        os._exit(1)


def _work(channel: socket.socket, stack: int, loaded: ModuleType, memory: int) -> None:
    """One call after another, until the channel is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        with suppress(ValueError, OSError):  # macOS refuses it
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    while (size := _read(channel, HEADER)) and (question := _read(channel, int.from_bytes(size, "big"))):
        function, arguments, cpu_seconds = json.loads(question)
        # The kernel ends this process when the time is up. What an earlier call did to the signal does not count.
        # C code writes the stack first: it needs neither the interpreter nor its lock.
        faulthandler.unregister(signal.SIGPROF)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with suppress(OSError, ValueError):
            faulthandler.register(signal.SIGPROF, file=stack, all_threads=False, chain=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        reply = _answer(loaded, function, arguments)
        signal.setitimer(signal.ITIMER_PROF, 0)
        channel.sendall(len(reply).to_bytes(HEADER, "big") + reply)


def _answer(loaded: ModuleType, function: str, arguments: list[Any]) -> bytes:
    try:
        reply = json.dumps({"value": getattr(loaded, function)(*arguments)}).encode()
        if len(reply) > MAX_FRAME:
            raise ValueError(f"{function} returned {len(reply)} bytes of JSON, more than {MAX_FRAME}")
    except MemoryError:
        reply = b'{"memory": true}'  # its worker is given up: what is still held is unknown
    except BaseException as error:  # noqa: BLE001 (also SystemExit: called code does not end a worker)
        reply = json.dumps({"error": _explain(error)}).encode()
    return reply


def _explain(error: BaseException) -> list[str]:
    """Type, message, and the line of code it came from."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    last = frames[-1] if frames else None
    where = f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}" if last else ""  # noqa: PTH119 (no pathlib here)
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 (a str() that breaks)
        message = ""
    return [type(error).__name__, message[:10_000], where]


def _read(channel: socket.socket, size: int) -> bytes:
    """So many bytes; nothing at the end."""
    chunks = bytearray()
    while len(chunks) < size:
        data = channel.recv(min(size - len(chunks), 1 << 20))
        if not data:
            return b""
        chunks += data
    return bytes(chunks)


def _tell(control: socket.socket, answer: dict[str, Any]) -> None:
    control.sendall(json.dumps(answer).encode() + b"\n")


def _nothing(*_: object) -> None:
    return None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
