"""The rewards of a collection, without its failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gym.collect.keys import DoneKeys
from gym.collect.run_replies import STAMP
from gym.collect.study.recorded import mix, parse_rollout, read_places
from gym.data.rates import Scored
from gym.data.row_keys import asked_key
from gym.data.row_parsing import PARAMS
from gym.errors import UserError


@dataclass(slots=True)
class Failures:
    count: int = 0


def read_scored(path: Path, failures: Failures) -> Iterator[Scored]:
    """Rollouts with a reward. A failure says nothing about how hard its row is: it is counted and skipped."""
    seen = DoneKeys()
    for number, offset, raw in read_places(path):
        if _is_failure(raw):
            failures.count += 1
            continue
        one = parse_rollout(raw, f"{path}:{number}", offset)
        if not seen.add(mix(one.task), one.repeat):
            what = f"{one.where}: task {one.task}, repeat {one.repeat} is there twice"
            raise UserError(what, "take one of the two lines out")
        params = one.fields.get(PARAMS)
        yield Scored(one.digest, asked_key(one.fields) if isinstance(params, dict) else b"", one.reward)


def _is_failure(raw: bytes) -> bool:
    """A line of X_failures.jsonl, which may have been put behind the rollouts; or another program's error."""
    try:
        fields: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False  # the reader says where
    if not isinstance(fields, dict):
        return False
    stamp = fields.get(STAMP)
    if isinstance(stamp, dict) and "terminal" in stamp:
        return True
    return fields.get("reward") is None and not fields.keys().isdisjoint({"error", "kind"})
