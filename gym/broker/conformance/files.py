"""Files: bytes, names, modes, links, folders; and errors that name the path."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Awaitable

from gym.broker.conformance.harness import Lab, Subject, check, fail, out, same
from gym.wire.failures import RolloutError

ODD_NAMES = ("two words", "new\nline", "-dash", "Grüße-世界", "quote'\"", "*star*", "$HOME", "back\\slash", ".hidden")
BIG = 100 << 20


async def _folder(lab: Lab) -> tuple[Subject, str]:
    box, name = await lab.box(), lab.name()
    await box.make_dir(name)
    return box, name


async def _says(awaitable: Awaitable[object], number: int) -> None:
    try:
        await awaitable
    except RolloutError as error:
        same(getattr(error, "errno", None), number)
    else:
        raise AssertionError(f"nothing refused it; {errno.errorcode[number]} was to come")


async def _trouble(awaitable: object, path: str) -> None:
    try:
        await awaitable  # type: ignore[misc]  # any of the coroutines below
    except RolloutError as error:
        check(path in error.message, f"the error does not name {path}: {error.message}")
        check(not error.retryable, "the failure is marked as one that another attempt may fix")
        return
    fail(f"no error about {path}")


async def round_trip(lab: Lab) -> None:
    """a file comes back byte for byte"""
    box, folder = await _folder(lab)
    data = bytes(range(256)) * 1000
    await box.write_file(f"{folder}/f", data)
    same(await box.read_file(f"{folder}/f"), data)
    same(await out(box, f"wc -c < {folder}/f"), str(len(data)))


async def empty_file(lab: Lab) -> None:
    """an empty file is one"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/f", b"")
    same((await box.read_file(f"{folder}/f"), (await box.stat(f"{folder}/f")).size), (b"", 0))


async def hundred_megabytes(lab: Lab) -> None:
    """a file of one hundred MiB goes in and comes back"""
    box, folder = await _folder(lab)
    block = hashlib.sha256(b"block").digest() * 2048
    data = block * (BIG // len(block))
    await box.write_file(f"{folder}/big", data)
    found = await out(box, f"sha256sum {folder}/big", timeout=120)
    same(found.split()[0], hashlib.sha256(data).hexdigest())
    check(await box.read_file(f"{folder}/big") == data, "it came back changed")
    await box.remove_path(f"{folder}/big")


async def ranges(lab: Lab) -> None:
    """a part of a file can be read"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/f", b"0123456789")
    same(await box.read_file(f"{folder}/f", offset=3, length=4), b"3456")
    same(await box.read_file(f"{folder}/f", offset=8, length=100), b"89")
    same(await box.read_file(f"{folder}/f", offset=100), b"")


async def appending(lab: Lab) -> None:
    """appending adds to what is there, and makes what is not"""
    box, folder = await _folder(lab)
    for piece in (b"one ", b"two"):
        await box.write_file(f"{folder}/f", piece, append=True)
    same(await box.read_file(f"{folder}/f"), b"one two")


async def modes(lab: Lab) -> None:
    """a mode that is given is set, one that is not is kept"""
    box, folder = await _folder(lab)
    path = f"{folder}/tool"
    await box.write_file(path, b"#!/bin/sh\necho ran\n", mode=0o750)
    same(((await box.stat(path)).mode, await out(box, f"./{path}")), (0o750, "ran"))
    await box.write_file(path, b"#!/bin/sh\necho again\n")
    same(((await box.stat(path)).mode, await out(box, f"./{path}")), (0o750, "again"))


async def odd_names(lab: Lab) -> None:
    """odd names are names: blanks, newlines, dashes, stars, UTF-8"""
    box, folder = await _folder(lab)
    for name in ODD_NAMES:
        await box.write_file(f"{folder}/{name}", name.encode())
    found = [entry.path.removeprefix(f"{folder}/") for entry in await box.list(folder)]
    same(sorted(found), sorted(ODD_NAMES))
    for name in ODD_NAMES:
        same(await box.read_file(f"{folder}/{name}"), name.encode())
        await box.remove_path(f"{folder}/{name}")


async def whole_or_not(lab: Lab) -> None:
    """writing over a file leaves nothing else beside it"""
    box, folder = await _folder(lab)
    for text in (b"old", b"new"):
        await box.write_file(f"{folder}/f", text)
    same([entry.path for entry in await box.list(folder)], [f"{folder}/f"])


async def links_told(lab: Lab) -> None:
    """a link is told as a link, with its target"""
    box, folder = await _folder(lab)
    await box.make_link(f"{folder}/l", "/etc/passwd")
    found = await box.stat(f"{folder}/l")
    same((found.kind, found.target), ("link", "/etc/passwd"))
    await box.make_link(f"{folder}/nowhere", "/no/such/place")
    same((await box.stat(f"{folder}/nowhere")).kind, "link")


async def write_through_link(lab: Lab) -> None:
    """writing to a link writes the file that it names"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/real", b"old")
    await box.make_link(f"{folder}/l", "real")
    await box.write_file(f"{folder}/l", b"new")
    same((await box.read_file(f"{folder}/real"), (await box.stat(f"{folder}/l")).kind), (b"new", "link"))


async def links_not_followed(lab: Lab) -> None:
    """listing and removing a tree follows no link out of it"""
    box, folder = await _folder(lab)
    await box.make_dir(f"{folder}/kept")
    await box.write_file(f"{folder}/kept/f", b"safe")
    await box.make_dir(f"{folder}/tree/sub")
    await box.make_link(f"{folder}/tree/sub/out", "../../kept")
    found = [entry.path for entry in await box.list(f"{folder}/tree", recursive=True)]
    same(found, [f"{folder}/tree/sub", f"{folder}/tree/sub/out"])
    await box.remove_path(f"{folder}/tree", recursive=True)
    same(await box.read_file(f"{folder}/kept/f"), b"safe")
    await _trouble(box.stat(f"{folder}/tree"), f"{folder}/tree")


async def folders(lab: Lab) -> None:
    """folders are made with their parents, and again without harm"""
    box, folder = await _folder(lab)
    for _ in range(2):
        await box.make_dir(f"{folder}/a/b/c")
    same((await box.stat(f"{folder}/a/b/c")).kind, "dir")
    await box.make_dir(f"{folder}/private", mode=0o700)
    same((await box.stat(f"{folder}/private")).mode, 0o700)


async def many_entries(lab: Lab) -> None:
    """a folder of three thousand files is listed whole"""
    box, folder = await _folder(lab)
    await out(box, f"cd {folder} && seq 1 3000 | xargs touch")
    same(len(await box.list(folder)), 3000)
    await box.remove_path(folder, recursive=True)


async def details(lab: Lab) -> None:
    """size, time and owner are told as the sandbox sees them"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/f", b"12345")
    await box.set_times(f"{folder}/f", 1234567890.5)
    found = await box.stat(f"{folder}/f")
    same((found.kind, found.size, found.mtime), ("file", 5, 1234567890.5))
    same(await out(box, f"stat -c '%s %Y %u' {folder}/f"), f"5 1234567890 {found.uid}")


async def missing_named(lab: Lab) -> None:
    """what is not there is an error that names it"""
    box = await lab.box()
    path = "no-such-file-anywhere"
    await _trouble(box.read_file(path), path)
    await _trouble(box.stat(path), path)
    await _trouble(box.list(path), path)
    await _trouble(box.remove_path(path), path)
    await _trouble(box.write_file(f"{path}/f", b""), f"{path}/f")


async def folder_is_no_file(lab: Lab) -> None:
    """a folder cannot be read or written as a file, nor removed with what is in it unless told"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/f", b"")
    await _trouble(box.read_file(folder), folder)
    await _trouble(box.write_file(folder, b""), folder)
    await _trouble(box.remove_path(folder), folder)
    same((await box.stat(f"{folder}/f")).kind, "file")


async def pipe_holds_nobody(lab: Lab) -> None:
    """a named pipe is no file to be read or written: it holds nobody"""
    box, folder = await _folder(lab)
    await out(box, f"mkfifo {folder}/pipe")
    same((await box.stat(f"{folder}/pipe")).kind, "other")
    await _says(box.read_file(f"{folder}/pipe"), errno.EINVAL)
    await _says(box.write_file(f"{folder}/pipe", b"x"), errno.EINVAL)


async def devices_without_end(lab: Lab) -> None:
    """of a device nothing is read, for it may have no end"""
    box, _ = await _folder(lab)
    await _says(box.read_file("/dev/zero", length=1), errno.EINVAL)


async def seen_by_both(lab: Lab) -> None:
    """commands see what was put, and what they write can be got"""
    box, folder = await _folder(lab)
    await box.write_file(f"{folder}/in", b"text")
    await out(box, f"tr a-z A-Z < {folder}/in > {folder}/out")
    same(await box.read_file(f"{folder}/out"), b"TEXT")


async def in_the_system(lab: Lab) -> None:
    """absolute paths are those of the sandbox"""
    box = await lab.box()
    check(b"root" in await box.read_file("/etc/passwd"), "no /etc/passwd")
    check((await box.stat("/usr/bin")).kind == "dir", "no /usr/bin")
