"""What a row says of its tests, and where an answer holds its code."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

MAX_UNPACKED = 512 << 20


class UnitTests(BaseModel):
    """Inputs and outputs in pairs; with `fn_name` each line of an input is an argument in JSON, each output a reply."""

    model_config = ConfigDict(frozen=True, extra="allow")

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fn_name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _unpacked(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "packed" not in given:
            return given
        try:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(base64.b64decode(given["packed"]), MAX_UNPACKED)
            return {**json.loads(data), "fn_name": given.get("fn_name")}
        except (TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"`packed` is not a base64 of zlib of JSON: {error}") from None

    @model_validator(mode="after")
    def _whole(self) -> UnitTests:
        if not self.inputs:
            raise ValueError("there are no tests: any answer would pass them")
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs and {len(self.outputs)} outputs: they come in pairs")
        if self.fn_name is not None:
            for at, (given, wanted) in enumerate(zip(self.inputs, self.outputs, strict=True)):
                for line in (*given.split("\n"), wanted):
                    check_json(line, at)
        return self


def check_json(line: str, at: int) -> None:
    try:
        json.loads(line, parse_int=len)
    except (ValueError, RecursionError):
        raise ValueError(f"test {at}: with `fn_name`, {line[:80]!r} should be JSON") from None


class Metadata(BaseModel):
    model_config = ConfigDict(extra="allow")

    unit_tests: UnitTests
    difficulty: str | None = None


def extract_code(text: str, *, strict: bool) -> str:
    """Between the last two lines that hold a fence; `strict` takes a last fence that never closes as well."""
    lines = text.split("\n")
    fences = [at for at, line in enumerate(lines) if "```" in line]
    if strict and len(fences) % 2:
        return "\n".join(lines[fences[-1] + 1 :]).strip("\n")
    if len(fences) < 2:
        return ""
    return "\n".join(lines[fences[-2] + 1 : fences[-1]])
