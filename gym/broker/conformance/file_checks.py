"""Files: bytes, names, modes, links, folders; and errors that name the path."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Awaitable

from gym.broker.conformance.harness import Harness, SandboxUnderTest, check, fail, out, same
from gym.wire.failures import RolloutError

ODD_NAMES = ("two words", "new\nline", "-dash", "Grüße-世界", "quote'\"", "*star*", "$HOME", "back\\slash", ".hidden")
BIG = 100 << 20


async def _folder(harness: Harness) -> tuple[SandboxUnderTest, str]:
    sandbox, name = await harness.sandbox(), harness.name()
    await sandbox.make_dir(name)
    return sandbox, name


async def _says(awaitable: Awaitable[object], number: int) -> None:
    try:
        await awaitable
    except RolloutError as error:
        same(getattr(error, "errno", None), number)
    else:
        raise AssertionError(f"nothing refused it; {errno.errorcode[number]} was to come")


async def _expect_error(awaitable: object, path: str) -> None:
    try:
        await awaitable  # type: ignore[misc]  # any of the coroutines below
    except RolloutError as error:
        check(path in error.message, f"the error does not name {path}: {error.message}")
        check(not error.retryable, "the failure is marked as one that another attempt may fix")
        return
    fail(f"no error about {path}")


async def round_trip(harness: Harness) -> None:
    """a file comes back byte for byte"""
    sandbox, folder = await _folder(harness)
    data = bytes(range(256)) * 1000
    await sandbox.write_file(f"{folder}/f", data)
    same(await sandbox.read_file(f"{folder}/f"), data)
    same(await out(sandbox, f"wc -c < {folder}/f"), str(len(data)))


async def empty_file(harness: Harness) -> None:
    """an empty file is one"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/f", b"")
    same((await sandbox.read_file(f"{folder}/f"), (await sandbox.stat(f"{folder}/f")).size), (b"", 0))


async def hundred_megabytes(harness: Harness) -> None:
    """a file of one hundred MiB goes in and comes back"""
    sandbox, folder = await _folder(harness)
    block = hashlib.sha256(b"block").digest() * 2048
    data = block * (BIG // len(block))
    await sandbox.write_file(f"{folder}/big", data)
    found = await out(sandbox, f"sha256sum {folder}/big", timeout=120)
    same(found.split()[0], hashlib.sha256(data).hexdigest())
    check(await sandbox.read_file(f"{folder}/big") == data, "it came back changed")
    await sandbox.remove_path(f"{folder}/big")


async def ranges(harness: Harness) -> None:
    """a part of a file can be read"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/f", b"0123456789")
    same(await sandbox.read_file(f"{folder}/f", offset=3, length=4), b"3456")
    same(await sandbox.read_file(f"{folder}/f", offset=8, length=100), b"89")
    same(await sandbox.read_file(f"{folder}/f", offset=100), b"")


async def appending(harness: Harness) -> None:
    """appending adds to what is there, and makes what is not"""
    sandbox, folder = await _folder(harness)
    for piece in (b"one ", b"two"):
        await sandbox.write_file(f"{folder}/f", piece, append=True)
    same(await sandbox.read_file(f"{folder}/f"), b"one two")


async def modes(harness: Harness) -> None:
    """a mode that is given is set, one that is not is kept"""
    sandbox, folder = await _folder(harness)
    path = f"{folder}/tool"
    await sandbox.write_file(path, b"#!/bin/sh\necho ran\n", mode=0o750)
    same(((await sandbox.stat(path)).mode, await out(sandbox, f"./{path}")), (0o750, "ran"))
    await sandbox.write_file(path, b"#!/bin/sh\necho again\n")
    same(((await sandbox.stat(path)).mode, await out(sandbox, f"./{path}")), (0o750, "again"))


async def odd_names(harness: Harness) -> None:
    """odd names are names: blanks, newlines, dashes, stars, UTF-8"""
    sandbox, folder = await _folder(harness)
    for name in ODD_NAMES:
        await sandbox.write_file(f"{folder}/{name}", name.encode())
    found = [entry.path.removeprefix(f"{folder}/") for entry in await sandbox.list(folder)]
    same(sorted(found), sorted(ODD_NAMES))
    for name in ODD_NAMES:
        same(await sandbox.read_file(f"{folder}/{name}"), name.encode())
        await sandbox.remove_path(f"{folder}/{name}")


async def whole_or_not(harness: Harness) -> None:
    """writing over a file leaves nothing else beside it"""
    sandbox, folder = await _folder(harness)
    for text in (b"old", b"new"):
        await sandbox.write_file(f"{folder}/f", text)
    same([entry.path for entry in await sandbox.list(folder)], [f"{folder}/f"])


async def links_are_reported(harness: Harness) -> None:
    """a link is reported as a link, with its target"""
    sandbox, folder = await _folder(harness)
    await sandbox.make_link(f"{folder}/l", "/etc/passwd")
    found = await sandbox.stat(f"{folder}/l")
    same((found.kind, found.target), ("link", "/etc/passwd"))
    await sandbox.make_link(f"{folder}/nowhere", "/no/such/place")
    same((await sandbox.stat(f"{folder}/nowhere")).kind, "link")


async def write_through_link(harness: Harness) -> None:
    """writing to a link writes the file that it names"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/real", b"old")
    await sandbox.make_link(f"{folder}/l", "real")
    await sandbox.write_file(f"{folder}/l", b"new")
    same((await sandbox.read_file(f"{folder}/real"), (await sandbox.stat(f"{folder}/l")).kind), (b"new", "link"))


async def links_not_followed(harness: Harness) -> None:
    """listing and removing a tree follows no link out of it"""
    sandbox, folder = await _folder(harness)
    await sandbox.make_dir(f"{folder}/kept")
    await sandbox.write_file(f"{folder}/kept/f", b"safe")
    await sandbox.make_dir(f"{folder}/tree/sub")
    await sandbox.make_link(f"{folder}/tree/sub/out", "../../kept")
    found = [entry.path for entry in await sandbox.list(f"{folder}/tree", recursive=True)]
    same(found, [f"{folder}/tree/sub", f"{folder}/tree/sub/out"])
    await sandbox.remove_path(f"{folder}/tree", recursive=True)
    same(await sandbox.read_file(f"{folder}/kept/f"), b"safe")
    await _expect_error(sandbox.stat(f"{folder}/tree"), f"{folder}/tree")


async def folders(harness: Harness) -> None:
    """folders are made with their parents, and again without harm"""
    sandbox, folder = await _folder(harness)
    for _ in range(2):
        await sandbox.make_dir(f"{folder}/a/b/c")
    same((await sandbox.stat(f"{folder}/a/b/c")).kind, "dir")
    await sandbox.make_dir(f"{folder}/private", mode=0o700)
    same((await sandbox.stat(f"{folder}/private")).mode, 0o700)


async def many_entries(harness: Harness) -> None:
    """a folder of three thousand files is listed whole"""
    sandbox, folder = await _folder(harness)
    await out(sandbox, f"cd {folder} && seq 1 3000 | xargs touch")
    same(len(await sandbox.list(folder)), 3000)
    await sandbox.remove_path(folder, recursive=True)


async def details(harness: Harness) -> None:
    """size, time and owner are reported as the sandbox sees them"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/f", b"12345")
    await sandbox.set_times(f"{folder}/f", 1234567890.5)
    found = await sandbox.stat(f"{folder}/f")
    same((found.kind, found.size, found.mtime), ("file", 5, 1234567890.5))
    same(await out(sandbox, f"stat -c '%s %Y %u' {folder}/f"), f"5 1234567890 {found.uid}")


async def missing_named(harness: Harness) -> None:
    """what is not there is an error that names it"""
    sandbox = await harness.sandbox()
    path = "no-such-file-anywhere"
    await _expect_error(sandbox.read_file(path), path)
    await _expect_error(sandbox.stat(path), path)
    await _expect_error(sandbox.list(path), path)
    await _expect_error(sandbox.remove_path(path), path)
    await _expect_error(sandbox.write_file(f"{path}/f", b""), f"{path}/f")


async def folder_is_no_file(harness: Harness) -> None:
    """a folder cannot be read or written as a file, nor removed with its content without `recursive`"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/f", b"")
    await _expect_error(sandbox.read_file(folder), folder)
    await _expect_error(sandbox.write_file(folder, b""), folder)
    await _expect_error(sandbox.remove_path(folder), folder)
    same((await sandbox.stat(f"{folder}/f")).kind, "file")


async def named_pipe(harness: Harness) -> None:
    """reading or writing a named pipe fails at once"""
    sandbox, folder = await _folder(harness)
    await out(sandbox, f"mkfifo {folder}/pipe")
    same((await sandbox.stat(f"{folder}/pipe")).kind, "other")
    await _says(sandbox.read_file(f"{folder}/pipe"), errno.EINVAL)
    await _says(sandbox.write_file(f"{folder}/pipe", b"x"), errno.EINVAL)


async def devices_without_end(harness: Harness) -> None:
    """of a device nothing is read, for it may have no end"""
    sandbox, _ = await _folder(harness)
    await _says(sandbox.read_file("/dev/zero", length=1), errno.EINVAL)


async def seen_by_both(harness: Harness) -> None:
    """commands see what was put, and what they write can be got"""
    sandbox, folder = await _folder(harness)
    await sandbox.write_file(f"{folder}/in", b"text")
    await out(sandbox, f"tr a-z A-Z < {folder}/in > {folder}/out")
    same(await sandbox.read_file(f"{folder}/out"), b"TEXT")


async def in_the_system(harness: Harness) -> None:
    """absolute paths are those of the sandbox"""
    sandbox = await harness.sandbox()
    check(b"root" in await sandbox.read_file("/etc/passwd"), "no /etc/passwd")
    check((await sandbox.stat("/usr/bin")).kind == "dir", "no /usr/bin")
