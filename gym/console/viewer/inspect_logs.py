"""Logs of Inspect as rollouts: a sample and an epoch each. `.eval` is an archive of JSON, `.json` one object."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from gym.collect.run_replies import FAILURE_CLASS, STAMP
from gym.console.viewer.chat_logs import asked_items, make_row, split_chat
from gym.data.row_parsing import AGENT_REF

_GRADES: Final = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_HEADS: Final = ("header.json", "_journal/start.json")  # the second of a run that has not ended yet
_ATTACHED: Final = "attachment://"
_MAX_HEAD: Final = 64 << 20  # bytes of what an archive says of itself, unpacked
_MAX_SAMPLE: Final = 256 << 20  # bytes of a sample, unpacked
# All of an archive may unpack to so much, whatever its size, and beyond it to so many times its size: entries of a bomb
# share their bytes, and JSON of chats packs to a thirtieth.
_MAX_ALL, _MAX_RATIO = 1 << 30, 200


def read_archive(path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from _read_entries(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise  # of the file, and of what is in it
    except Exception as error:  # noqa: BLE001 (every decompressor has error classes of its own)
        raise ValueError(str(error)) from error


def _read_entries(path: Path) -> Iterator[dict[str, Any]]:
    with _open_zip(path) as archive:
        _check_sizes(archive, path)
        names = set(archive.namelist())
        head = next((one for one in _HEADS if one in names), "")
        about = orjson.loads(archive.read(head)).get("eval", {}) if head else {}
        tasks: dict[str, int] = {}
        for name in archive.namelist():
            if name.startswith("samples/"):
                yield _read_sample(orjson.loads(archive.read(name)), about, tasks)


def read_json_log(path: Path) -> Iterator[dict[str, Any]]:
    log = orjson.loads(path.read_bytes())
    tasks: dict[str, int] = {}
    for sample in log.get("samples") or ():
        yield _read_sample(sample, log.get("eval") or {}, tasks)


def _open_zip(path: Path) -> zipfile.ZipFile:
    """Newer archives are packed with zstd, which Python's own module knows from 3.14 on."""
    for name in ("backports.zstd.zipfile", "zipfile"):
        with suppress(ImportError):
            found: zipfile.ZipFile = importlib.import_module(name).ZipFile(path)
            return found
    raise NotImplementedError("this Python cannot unpack it")


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """By what the archive says of its entries, of which no more is ever unpacked. What is not read is not counted."""
    sizes = {one.filename: one.file_size for one in archive.infolist()}
    samples = {name: size for name, size in sizes.items() if name.startswith("samples/")}
    for name, size in sizes.items():
        max_bytes = _MAX_SAMPLE if name in samples else _MAX_HEAD if name in _HEADS else size
        if size > max_bytes:
            raise ValueError(f"{name} unpacks to {size >> 20} MB, and at most {max_bytes >> 20} MB are read")
    read = [one.file_size for one in archive.infolist() if one.filename in samples]
    packed = path.stat().st_size
    if sum(read) > _MAX_ALL + _MAX_RATIO * packed:
        raise ValueError(f"its samples unpack to {sum(read) >> 20} MB, of {packed >> 20} MB: no log compresses so far")


def _read_sample(sample: dict[str, Any], about: Mapping[str, Any], tasks: dict[str, int]) -> dict[str, Any]:
    attachments = sample.get("attachments") or {}
    asked, output = split_chat(_attached(sample.get("messages") or [], attachments))
    reply = sample.get("output") or {}
    response = {"output": output, "model": str(reply.get("model") or about.get("model") or ""), **_usage(sample)}
    if sample.get("limit") or any(one.get("stop_reason") == "max_tokens" for one in reply.get("choices") or ()):
        response["status"] = "incomplete"
    task = tasks.setdefault(str(sample.get("id")), len(tasks))
    epoch = sample.get("epoch")
    repeat = epoch - 1 if isinstance(epoch, int) and epoch > 0 else 0
    row = make_row(task, repeat, asked or asked_items(_attached(sample.get("input"), attachments)), response)
    row |= {AGENT_REF: {"name": str(about.get("task") or "inspect")}, **_result(sample)}
    return {**row, STAMP: _stamp(sample)}


def _result(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Its first score is the reward; an error is a failure and no reward."""
    if error := sample.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        return {FAILURE_CLASS: "error", "message": str(message)[:10_000], "id": sample.get("id")}
    scores = sample.get("scores")
    named = {name: one for name, one in scores.items() if isinstance(one, dict)} if isinstance(scores, dict) else {}
    values = {name: _score(one.get("value")) for name, one in named.items()}
    reward = next((value for value in values.values() if value is not None), None)
    explained = {name: one["explanation"] for name, one in named.items() if one.get("explanation")}
    return {
        **({"reward": reward} if reward is not None else {}),
        "scores": {name: value for name, value in values.items() if value is not None},
        **({"explanations": explained} if explained else {}),
        **{name: sample[name] for name in ("id", "target", "limit", "metadata") if sample.get(name)},
    }


def _score(value: Any) -> float | None:
    if isinstance(value, str):
        return _GRADES.get(value)
    if isinstance(value, dict):
        return next((found for one in value.values() if (found := _score(one)) is not None), None)
    return float(value) if isinstance(value, (int, float)) else None


def _usage(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sum over its models."""
    total: dict[str, int] = {}
    for usage in (sample.get("model_usage") or {}).values():
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            if isinstance(usage.get(name), int):
                total[name] = total.get(name, 0) + usage[name]
    return {"usage": total} if total else {}


def _stamp(sample: Mapping[str, Any]) -> dict[str, Any]:
    found = {"seconds": sample.get("total_time"), "started": _epoch(sample.get("started_at"))}
    return {name: value for name, value in found.items() if isinstance(value, (int, float))}


def _epoch(text: Any) -> float | None:
    """A time without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _attached(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Long texts stand once, apart from where they were said."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHED), value) if value.startswith(_ATTACHED) else value
    if isinstance(value, list):
        return [_attached(one, attachments) for one in value]
    if isinstance(value, dict):
        return {name: _attached(one, attachments) for name, one in value.items()}
    return value
