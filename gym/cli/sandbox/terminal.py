"""A person's terminal at one end of the line, a shell in a sandbox at the other. The terminal is put back as it was."""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from gym.cli import console
from gym.cli.sandbox.broker_channel import BrokerAccess, connect
from gym.cli.sandbox.show import SIGNALLED
from gym.cli.sandbox.terminal_socket import upgrade
from gym.errors import UserError
from gym.http.websocket import BINARY, CLOSE, PING, PONG, TEXT, Decoder, encode
from gym.wire.failures import RolloutError

CHUNK: Final = 65536


def attach_terminal(broker: BrokerAccess, sandbox: str, words: tuple[str, ...], user: str | None) -> int:
    """Until the shell ends: its exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("attach needs a terminal.", f"Without one: gym sandbox exec {sandbox} -- COMMAND")
    asked = {**_size(), "term": os.environ.get("TERM") or "xterm"}
    query = urlencode(asked | ({"command": shlex.join(words)} if words else {}) | ({"user": user} if user else {}))
    with connect(broker) as line:
        rest = upgrade(line, f"/sandboxes/{sandbox}/attach?{query}", broker.token)
        with _raw(sys.stdin.fileno()), _woken_by_resize() as resized:
            return _pump(line, rest, resized)


def _pump(line: socket.socket, rest: bytes, resized: int) -> int:
    decoder = Decoder(masked=False)
    code = _take(line, decoder, rest)
    keyboard = sys.stdin.fileno()
    watched: list[Any] = [line, keyboard, resized]
    while code is None:
        ready, _, _ = select.select(watched, [], [])
        if resized in ready:
            os.read(resized, CHUNK)
            line.sendall(encode(TEXT, orjson.dumps(_size()), masked=True))
        if keyboard in ready:
            typed = os.read(keyboard, CHUNK)
            if typed:
                line.sendall(encode(BINARY, typed, masked=True))
            else:
                watched.remove(keyboard)
        if line in ready:
            data = line.recv(CHUNK)
            code = _take(line, decoder, data) if data else SIGNALLED + signal.SIGHUP
    return code


def _take(line: socket.socket, decoder: Decoder, data: bytes) -> int | None:
    """Shows what came; the exit code once it comes."""
    for message in decoder.feed(data):
        if message.kind == BINARY:
            console.show_bytes(message.data)
        elif message.kind == PING:
            line.sendall(encode(PONG, message.data, masked=True))
        elif message.kind == CLOSE:
            return SIGNALLED + signal.SIGHUP
        elif message.kind == TEXT and (code := _exit_code(message.data)) is not None:
            return code
    return None


def _exit_code(text: bytes) -> int | None:
    message = orjson.loads(text)
    if "error" in message:
        raise RolloutError("sandbox", str(message["error"].get("message", "")), server="sandbox")
    result = message.get("result")
    if result is None:
        return None
    code = result.get("exit_code")
    return SIGNALLED + int(result.get("signal") or 0) if code is None else int(code)


def _size() -> dict[str, Any]:
    """A terminal without a size gets the usual one."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return {"rows": size.lines or 24, "columns": size.columns or 80}


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Every key goes to the other end, Ctrl-C too."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead is for the other end
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _woken_by_resize() -> Iterator[int]:
    """A descriptor that has something to read whenever the window has another size."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)

    def wake(_signal: int, _frame: object) -> None:
        os.write(theirs, b"r")

    before = signal.signal(signal.SIGWINCH, wake)
    try:
        yield ours
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(ours)
        os.close(theirs)
