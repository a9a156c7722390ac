"""Run by path in the environment of a server written against nemo_gym: checks rows with that server's pydantic models.

It speaks as `gym.data.row_process` does, and imports nothing of ours: that environment has none of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import typing
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ValidationError

NO_RESPONSE = b',"response":{"output":[]}}'
SHOWN = 80
ASKED = "responses_create_params"


def find_models(app: Path) -> list[type[BaseModel]]:
    """Of the bodies of `verify` and `seed_session`, as the server's class in the file types them."""
    spec = importlib.util.spec_from_file_location("app", app)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["app"] = module
    spec.loader.exec_module(module)
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == "app"]
    servers = [one for one in own if callable(getattr(one, "verify", None))]
    names = ("verify", "seed_session")
    return [model for name in names for one in servers[-1:] for model in _body_models(getattr(one, name, None))]


def _body_models(method: Any) -> list[type[BaseModel]]:
    if method is None:
        return []
    hints = typing.get_type_hints(method)
    return [
        hint
        for name, hint in hints.items()
        if name != "return" and isinstance(hint, type) and issubclass(hint, BaseModel)
    ]


def check_block(models: list[type[BaseModel]], raw: bytes, first: int, only: list[int]) -> list[dict[str, Any]]:
    wanted = frozenset(only)
    lines = ((number, line.strip()) for number, line in enumerate(raw.split(b"\n"), first) if number in wanted)
    return [{"line": number, **found} for number, line in lines for found in check_line(models, line)]


def check_line(models: list[type[BaseModel]], raw: bytes) -> list[dict[str, Any]]:
    """The problems that the first failing model finds, without those of the response, which no row has."""
    raw = _without_auto(raw)
    for model in models:
        try:
            model.model_validate_json(raw[:-1] + NO_RESPONSE)
        except ValidationError as error:
            found = [one for one in error.errors(include_url=False) if one["loc"][:1] != ("response",)]
            if found:
                return [_finding(one["loc"], one["type"], one["msg"], one["input"]) for one in found]
    return []


def _without_auto(raw: bytes) -> bytes:
    """`"tools": "auto"` is our word for a server's own, which are filled in when rows are collected."""
    row = json.loads(raw) if b'"auto"' in raw else {}
    params = row.get(ASKED)
    if not isinstance(params, dict) or params.get("tools") != "auto":
        return raw
    return json.dumps({**row, ASKED: {**params, "tools": []}}).encode()


def _finding(place: tuple[int | str, ...], kind: str, what: str, value: Any) -> dict[str, Any]:
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if name not in ("responses_create_params", "response")}
    text = json.dumps(value, default=str, ensure_ascii=False)
    message = "is missing" if kind == "missing" else what.removeprefix("Value error, ")
    return {"key": key, "what": message, "value": text if len(text) <= SHOWN else f"{text[:SHOWN]}…"}


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    work = json.loads(stdin.readline())
    folder, why = Path(work["folder"]), ""
    sys.path.insert(0, str(folder))
    try:
        models = find_models(folder / work["entrypoint"])
        why = "" if models else "its `verify` names no pydantic model"
    except Exception as error:  # noqa: BLE001 (whatever it does at import)
        models, why = [], f"it cannot be imported: {type(error).__name__}: {error}"
    while header := stdin.readline():
        request = json.loads(header)
        raw = stdin.read(request["size"])
        problems = check_block(models, raw, request["first"], request["only"] or []) if models else []
        stdout.write(json.dumps({"problems": problems, "why": why}).encode() + b"\n")
        stdout.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what the server prints is not an answer
        serve(sys.stdin.buffer, answers)
