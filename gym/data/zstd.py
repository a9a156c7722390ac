"""Reads zstd files: by Python itself from 3.14 on, by the zstandard package before. A file that was cut is an error."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any, BinaryIO, cast

from gym.errors import UserError

_CHUNK = 32 << 10  # of compressed bytes: text that repeats itself may grow a thousandfold
_BUFFER = 1 << 20


def open_zstd(file: str) -> BinaryIO:
    for name in ("compression.zstd", "zstandard"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == "zstandard":
            return cast(BinaryIO, io.BufferedReader(_Frames(Path(file).open("rb"), module), _BUFFER))
        return cast(BinaryIO, module.open(file, "rb"))
    raise UserError(
        f"{file} is compressed with zstd, and this Python has no zstd", "pip install zstandard, or unzstd it"
    )


class _Frames(io.RawIOBase):
    """The package's own reader takes a cut file for a whole one."""

    def __init__(self, file: io.BufferedReader, module: Any) -> None:
        self._file = file
        self._decompressor = module.ZstdDecompressor()
        self._frame: Any = None  # None between frames
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            chunk = self._file.read(_CHUNK)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the file ends in the middle of its data")
                return 0
            self._ready = memoryview(self._decompress(chunk))
        size = min(len(target), len(self._ready))
        target[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()

    def _decompress(self, chunk: bytes) -> bytes:
        parts = []
        while chunk:
            self._frame = self._frame or self._decompressor.decompressobj()
            parts.append(self._frame.decompress(chunk))
            chunk = b""
            if self._frame.eof:
                chunk, self._frame = self._frame.unused_data, None
        return b"".join(parts)
