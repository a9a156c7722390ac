"""The queue that a person names: its address from an option, a variable or a file, never a password in an argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gym.collect.queue.queue_options import QueueOptions
from gym.errors import UserError
from gym.http.redis_link import check_address, show_address

_VARIABLE = re.compile(r"\$\{oc\.env:(\w+)\}")
_HINT = "put the whole address into a variable, --queue '${oc.env:QUEUE_URL}', or into a file, --queue @queue.txt"


def read_queue_options(given: str, name: str, lease: float, environ: Mapping[str, str]) -> QueueOptions | None:
    if not given:
        return None
    return QueueOptions(check_address(_read_address(given, environ), "--queue"), name, lease)


def _read_address(given: str, environ: Mapping[str, str]) -> str:
    if found := _VARIABLE.fullmatch(given):
        if not environ.get(found[1]):
            raise UserError(f"--queue: the variable {found[1]} is not set", f"export {found[1]}=redis://HOST:6379")
        return environ[found[1]].strip()
    if given.startswith("@"):
        return _read_file(Path(given[1:]))
    if "@" in given:
        what = f"--queue {show_address(given)}: every process list of this machine would show the password"
        raise UserError(what, _HINT)
    return given


def _read_file(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--queue @{path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    if not text:
        raise UserError(f"--queue @{path}: the file is empty", "write redis://:PASSWORD@HOST:6379 into it")
    return text
