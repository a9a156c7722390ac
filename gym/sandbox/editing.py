"""Looking at files and changing them in a sandbox, as models are used to: an error is a text for the model."""

from __future__ import annotations

import errno
import posixpath
from typing import Final

from gym.sandbox.broker_client import FileProblem, Sandbox

MAX_BYTES: Final = 4 << 20
CONTEXT: Final = 4  # lines shown around a change


class EditError(Exception):
    """What the model is to read instead of a result."""


async def view(sandbox: Sandbox, path: str, lines: list[int] | None, max_length: int) -> str:
    """A file with line numbers, or what a folder holds, two levels deep."""
    try:
        info = await sandbox.stat(path)
        if info.kind == "dir":
            found = await sandbox.exec(["find", path, "-maxdepth", "2", "-not", "-path", "*/.*"], max_output=max_length)
            return "\n".join(sorted(found.stdout.text.splitlines())) or f"{path} is empty"
    except FileProblem as problem:
        raise EditError(explain(problem, path)) from None
    return cut(number_lines(await read(sandbox, path), lines), max_length)


async def create(sandbox: Sandbox, path: str, text: str) -> str:
    await write(sandbox, path, text)
    return f"{path} is written, {len(text.splitlines())} lines."


async def replace(sandbox: Sandbox, path: str, old: str, new: str) -> str:
    """`old` has to be there exactly once."""
    before = await read(sandbox, path)
    if not old:
        raise EditError("old_str is empty: give the text to be replaced.")
    count = before.count(old)
    if count != 1:
        hint = "Copy it exactly as it stands, blanks too." if not count else "Give more lines around it."
        raise EditError(f"old_str is {count} times in {path}; it has to be there once. {hint}")
    start = before.index(old)
    after = before[:start] + new + before[start + len(old) :]
    await write(sandbox, path, after)
    line = before.count("\n", 0, start) + 1
    return _around(after, path, line, line + new.count("\n"))


async def insert(sandbox: Sandbox, path: str, line: int, text: str) -> str:
    """After that line; 0 is the beginning."""
    before = (await read(sandbox, path)).splitlines(keepends=True)
    if not 0 <= line <= len(before):
        raise EditError(f"insert_line is {line}; {path} has {len(before)} lines.")
    if line and not before[line - 1].endswith("\n"):
        before[line - 1] += "\n"
    new = text if text.endswith("\n") else text + "\n"
    after = "".join([*before[:line], new, *before[line:]])
    await write(sandbox, path, after)
    return _around(after, path, line + 1, line + new.count("\n"))


async def read(sandbox: Sandbox, path: str) -> str:
    try:
        info = await sandbox.stat(path)
        if info.kind == "dir":
            raise EditError(f"{path} is a folder.")
        if info.kind == "other":
            raise EditError(f"{path} is not a regular file: use the shell.")
        if info.size > MAX_BYTES:
            raise EditError(f"{path} is {info.size} bytes, more than {MAX_BYTES}: use the shell.")
        # What it is may have changed since, or be a link's or /proc's.
        data = await sandbox.get(path, max_bytes=MAX_BYTES)
    except FileProblem as problem:
        raise EditError(explain(problem, path)) from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EditError(f"{path} is not text in UTF-8: use the shell.") from None


async def write(sandbox: Sandbox, path: str, text: str) -> None:
    try:
        await sandbox.make_dir(posixpath.dirname(path) or "/")
        await sandbox.put(path, text.encode("utf-8", "surrogatepass"))
    except FileProblem as problem:
        raise EditError(explain(problem, path)) from None


def explain(problem: FileProblem, path: str) -> str:
    known = {errno.ENOENT: "is not there", errno.EACCES: "may not be touched", errno.EISDIR: "is a folder"}
    known |= {errno.EINVAL: "is not a regular file: use the shell", errno.EFBIG: "is too large: use the shell"}
    known |= {errno.ENOTDIR: "goes through something that is not a folder", errno.EROFS: "cannot be written"}
    return f"{path} {known.get(problem.errno, problem.message)}."


def number_lines(text: str, lines: list[int] | None) -> str:
    rows = text.split("\n")
    if rows and rows[-1] == "":
        rows.pop()
    first, last = 1, len(rows)
    if lines is not None:
        if len(lines) != 2 or not 1 <= lines[0] <= max(last, 1) or not (lines[1] == -1 or lines[1] >= lines[0]):
            raise EditError(f"view_range has to be [first, last] within the {last} lines; last may be -1.")
        first, last = lines[0], last if lines[1] == -1 else min(lines[1], last)
    return "\n".join(f"{number:6}\t{rows[number - 1]}" for number in range(first, last + 1))


def cut(text: str, max_length: int) -> str:
    """Head and tail, and between them how much is missing."""
    if len(text) <= max_length:
        return text
    half = max_length // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[... {missing} characters are left out; ask for less at a time ...]\n{text[-half:]}"


def _around(text: str, path: str, first: int, last: int) -> str:
    rows = text.count("\n") + 1
    shown = number_lines(text, [max(first - CONTEXT, 1), min(last + CONTEXT, max(rows, 1))]) if text else ""
    return f"{path} is changed:\n{shown}"
