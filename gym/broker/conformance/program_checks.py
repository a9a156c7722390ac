"""Sandboxes of short programs: whatever one program leaves, wherever it can, the next one does not find.

Or the sandbox reports that it differs, and its owner throws it away.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from gym.broker.conformance.harness import Harness, Skipped, check, same, sh
from gym.broker.provider import Process
from gym.sandbox.python_sandboxes import NOBODY, PROGRAM_FOLDER
from gym.sandbox.short_programs import COMMAND, FORKSERVER, ProgramLimits, framed, pack, request_of
from gym.wire.sandbox import ExecRequest

BOUNDS: Final = ProgramLimits(cpu=30.0, memory=512 << 20)
SECONDS: Final = 120.0
# Everything that a program could find: names, kinds, rights, owners, links, times, contents; and what no file shows.
LOOK: Final = """
import hashlib, json, os, resource, stat
found, own, closed = {}, os.getcwd(), hashlib.sha1()
def state(path):
    info = os.lstat(path)
    some = [oct(info.st_mode), info.st_uid, info.st_gid, info.st_rdev]
    if stat.S_ISLNK(info.st_mode):
        some.append(os.readlink(path))
    try:
        some += [(name, os.getxattr(path, name).hex()) for name in os.listxattr(path)]
    except OSError:
        pass
    writable = stat.S_ISDIR(info.st_mode) and os.access(path, os.W_OK) or stat.S_ISCHR(info.st_mode)
    if not writable:  # those are set again
        some += [info.st_size, info.st_nlink, info.st_mtime_ns, info.st_ctime_ns]
    if stat.S_ISREG(info.st_mode) and not path.startswith(('/proc/', '/sys/')):
        some.append(info.st_atime_ns)
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            some.append(hashlib.sha1(open(path, 'rb').read()).hexdigest())
    return some
for root in ROOTS:
    for folder, folders, files in os.walk(root):
        folders[:] = [] if folder in (own, '/proc', '/sys') else [one for one in folders if f'{folder}/{one}' != own]
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            closed.update(repr([os.lstat(f'{folder}/{one}')[:7] for one in files]).encode())
            files = []
        for path in [*([folder] if folder not in ('/proc', '/sys') else []), *(f'{folder}/{one}' for one in files)]:
            if path != own and not (folder == '/proc' and path != folder):
                try:
                    found[path] = state(path)
                except OSError as error:
                    found[path] = error.errno
if '/' in ROOTS:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid():
            for one in ('oom_score_adj', 'coredump_filter', 'autogroup'):
                try:
                    found['a process', name == '1', one] = open(f'/proc/{name}/{one}').read()
                except OSError:
                    pass
        elif not name.isdigit():
            found[f'/proc/{name}'] = oct(os.lstat(f'/proc/{name}').st_mode)
    for path in ('sysvipc/shm', 'sysvipc/msg', 'sysvipc/sem', 'net/unix', 'sys/kernel/hostname'):
        try:
            found[path] = open(f'/proc/{path}').read().count('\\n'), open(f'/proc/{path}').readline()
        except OSError:
            pass
found['environment'] = sorted((key, value.replace(own, '')) for key, value in os.environ.items())
found['closed'] = closed.hexdigest()
found['limits'] = [resource.getrlimit(one) for one in range(10)]
found['more'] = [os.listdir('.'), os.getpriority(os.PRIO_PROCESS, 0), sorted(os.listdir('/proc/self/fd'))]
found['umask'] = os.umask(0)
print(json.dumps({str(key): value for key, value in found.items()}, sort_keys=True))
"""
# Wherever something can be made: in every folder there is.
MAKE: Final = """
import os, socket
made = 0
for root in ROOTS:
    for folder, folders, files in os.walk(root):
        folders[:] = [] if folder in ('/proc', '/sys') else folders
        for number, make in enumerate((
            lambda path: open(path, 'w').write('left'), os.mkdir, lambda path: os.symlink('/left', path), os.mkfifo,
            lambda path: socket.socket(socket.AF_UNIX).bind(path), lambda path: os.link(LOOKED_AT, path),
        )):
            try:
                make(f'{folder}/left-{number}')
                made += 1
            except OSError:
                pass
for name in os.listdir('/dev') if '/' in ROOTS else ():
    try:
        os.utime(f'/dev/{name}')
    except OSError:
        pass
kept = socket.socket(socket.AF_UNIX)
kept.bind('\\0left')
print(made)
"""
# Whatever is there already is changed: rights, times, links, attributes, contents; and what stands beside files.
CHANGE: Final = """
import ctypes, os, resource, stat
made = 0
def attempt(act, *given):
    global made
    try:
        act(*given)
        made += 1
    except (OSError, ValueError):
        pass
def write(path, text):
    with open(path, 'r+b', buffering=0) as file:
        file.write(text)
def replace(path):
    os.unlink(path)
    os.symlink('/left', path)
for root in ROOTS:
    for folder, folders, files in os.walk(root, topdown=False):
        if folder.startswith(('/proc', '/sys')) or folder == os.getcwd():
            continue
        for path in [*(f'{folder}/{one}' for one in files), folder]:
            kind = os.lstat(path).st_mode
            if stat.S_ISCHR(kind):  # rights of a device may be this machine's own
                continue
            attempt(os.setxattr, path, 'user.left', b'1')
            attempt(os.utime, path, (5, 5))
            if stat.S_ISREG(kind):
                attempt(write, path, b'left')
            if not stat.S_ISLNK(kind):
                attempt(os.chmod, path, stat.S_IMODE(kind) ^ 0o1)
            if not stat.S_ISDIR(kind):
                attempt(replace, path)
if '/' in ROOTS:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid():
            attempt(write, f'/proc/{name}/oom_score_adj', b'777')
            attempt(write, f'/proc/{name}/coredump_filter', b'7')
            attempt(write, f'/proc/{name}/timerslack_ns', b'77777')
            attempt(write, f'/proc/{name}/comm', b'left')
            attempt(os.setpriority, os.PRIO_PROCESS, int(name), 7)
            attempt(resource.prlimit, int(name), resource.RLIMIT_NOFILE, (99, 99))
    libc = ctypes.CDLL(None)
    libc.shmget(7, 4096, 0o1666), libc.msgget(7, 0o1666), libc.semget(7, 1, 0o1666)
    libc.mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o666, None)
    libc.syscall(248, b'user', b'left', b'left', 4, -4)
    libc.sethostname(b'left', 4)
print(made)
"""


async def nothing_made_stays(harness: Harness) -> None:
    """what a program makes, in every folder where it can, the next one does not find"""
    async with begun(harness) as server:
        await _nothing_made(server)


async def _nothing_made(server: ProgramServer) -> None:
    before = await server.look()
    made = await server.run(MAKE)
    check(int(made) > 0, "it could make nothing, not even where it may")
    check(not server.differs, f"not all that was made is removed: {server.differs}")
    after = await server.look()
    same([key for key in sorted({*before, *after}) if before.get(key) != after.get(key)], [])


async def nothing_changed_stays(harness: Harness) -> None:
    """what a program changes, wherever it can, the next one does not find, or the sandbox reports that it differs"""
    async with begun(harness) as server:
        await _nothing_changed(server)


async def _nothing_changed(server: ProgramServer) -> None:
    before = await server.look()
    check(not server.differs, f"a program that only looks changes the sandbox: {server.differs}")
    await server.run(CHANGE)
    if not server.differs:
        after = await server.look()
        same([key for key in sorted({*before, *after}) if before.get(key) != after.get(key)], [])


@asynccontextmanager
async def begun(harness: Harness) -> AsyncIterator[ProgramServer]:
    server = await ProgramServer.begin(harness)
    try:
        yield server
    finally:
        await server.end()


class ProgramServer:
    """The forkserver for short programs, in a sandbox of the harness."""

    _process: Process

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.differs = ""
        self._roots = f"ROOTS, LOOKED_AT = {roots!r}, '/etc/passwd'\n"
        self._received = bytearray()
        self._more = asyncio.Event()

    @classmethod
    async def begin(cls, harness: Harness) -> ProgramServer:
        walled = harness.abilities.isolates
        spec = {"read_only": True, "mounts": {PROGRAM_FOLDER: 64 << 20}, "user": NOBODY} if walled else {}
        sandbox = await harness.fresh(limits={"memory": "1g"}, **spec)
        if not (await sh(sandbox, "command -v python3")).ok:
            raise Skipped("there is no python3 inside")
        server = cls(("/",) if walled else (".",))
        server._process = await sandbox.start(ExecRequest(shell=COMMAND, timeout=SECONDS * 4), server._take)
        settings = {"base": PROGRAM_FOLDER if walled else "", "wanted": ()}
        await server._process.write(framed(pack(FORKSERVER)) + framed(json.dumps(settings).encode()))
        await server._read()
        return server

    async def end(self) -> None:
        await self._process.kill()
        await self._process.wait()

    async def look(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.run(LOOK))
        return found

    async def run(self, code: str) -> str:
        await self._process.write(framed(request_of(self._roots + code, [""], None, BOUNDS)))
        reply = await self._read()
        same((reply["end"], reply.get("error", "")), ("ok", ""))
        self.differs = (await self._read())["differs"]
        return str(reply["stdout"])

    def _take(self, stream: int, data: bytes) -> None:
        self._received += data
        self._more.set()

    async def _read(self) -> dict[str, Any]:
        size = struct.unpack("!I", await self._exactly(4))[0]
        reply: dict[str, Any] = json.loads(await self._exactly(size))
        return reply

    async def _exactly(self, size: int) -> bytes:
        async with asyncio.timeout(SECONDS):
            while len(self._received) < size:
                self._more.clear()
                check(self._process.running, "what runs the programs has ended")
                await self._more.wait()
        data = bytes(self._received[:size])
        del self._received[:size]
        return data
