"""Reads zstd files: with Python's own module from 3.14 on, with its backport before."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any, BinaryIO, cast

from gym.errors import UserError
from gym.programs import install_command


def open_zstd(file: str) -> BinaryIO:
    """Reading past the point where the file was cut raises EOFError."""
    return cast(BinaryIO, need_zstd(file).open(file, "rb"))


def need_zstd(file: str) -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return importlib.import_module(name)
    raise UserError(
        f"{file} is compressed with zstd, and this Python has no zstd",
        f"{install_command('backports.zstd')}, or unzstd it",
    )


def large_window_hint(file: str, error: Exception) -> str:
    """What to do where a frame wants more than the 128 MB that a reader grants by itself; "" for other errors."""
    return f"it was packed with --long: zstd -d --long=31 {file}" if "too much memory" in str(error) else ""
