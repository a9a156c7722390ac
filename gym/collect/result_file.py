"""Files of results: other processes see each of them whole or not at all."""

from __future__ import annotations

import shlex
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gym.data.whole_files import whole_file
from gym.errors import InfraError, UserError


@contextmanager
def result_file(path: Path, *, replace: bool = False) -> Iterator[BinaryIO]:
    """An existing file is overwritten only with `replace`; after an error it stays as it was."""
    if path.exists() and not replace:
        raise UserError(f"{path} exists already", "choose another name with -o, or remove it")
    try:
        with whole_file(path) as stream:
            yield stream
    except OSError as error:
        if error.filename is not None and path.name not in str(error.filename):  # of a file that is read meanwhile
            raise
        raise InfraError(
            f"cannot write to {path}: {error.strerror or error}", "choose another place with -o"
        ) from error


def damaged_line(path: Path, number: int) -> UserError:
    """Of an output that is read again."""
    return UserError(
        f"{path}:{number}: this line was not written by a collection, or is damaged",
        "remove it, or add --fresh to move the files aside",
    )


def refuse_byte_order_mark(path: Path, first: bytes) -> None:
    """No collection writes one, and few programs that read the lines pass over it."""
    if first.startswith(BOM_UTF8):
        name = shlex.quote(str(path))
        raise UserError(
            f"{path} begins with a byte order mark, which another program wrote",
            f"take it out: tail -c +4 {name} > {name}.new && mv {name}.new {name}",
        )


def write_result(path: Path, data: bytes) -> None:
    with result_file(path, replace=True) as stream:
        stream.write(data)
