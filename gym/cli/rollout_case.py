"""A rollout as a verifier case: its row, what the model said, what it called, and the reward that it must get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from gym.collect.sidecar import OutputPaths
from gym.errors import UserError
from gym.server.case_rows import ExampleRows
from gym.wire import items
from gym.wire.json_text import read_json
from gym.wire.metrics import ROLLOUT, TASK

STAMP = "_gym"
KEPT = ("output", "status", "incomplete_details")  # of a response: ids and times are of that day


@dataclass(frozen=True, slots=True)
class FoundRollout:
    line: dict[str, Any]
    row: dict[str, Any]  # as it was sent

    @property
    def key(self) -> str:
        return str(self.line[STAMP]["key"])

    @property
    def agent(self) -> str:
        ref = self.line.get("agent_ref")
        return str(ref.get("name") or "") if isinstance(ref, dict) else str(self.line[STAMP].get("agent") or "")


def find_rollout(path: Path, key: str) -> FoundRollout:
    """The one whose key begins so."""
    found = [line for line in _lines(path) if str((line.get(STAMP) or {}).get("key", "")).startswith(key)]
    if len(found) != 1:
        keys = ", ".join(line[STAMP]["key"] for line in found[:5])
        raise UserError(
            f"{path} has {f'{len(found)} rollouts' if found else 'no rollout'} whose key begins with {key!r}"
            + (f": {keys}" if found else ""),
            "`gym view` shows the keys; they stand below `_gym` in each line.",
        )
    return FoundRollout(found[0], _row_of(found[0], OutputPaths.beside(path).materialized))


def rollout_to_case(
    found: FoundRollout, cases: Path, *, name: str, reward: float | None, oracle: bool, steps: bool
) -> dict[str, Any]:
    """With `"row": N` where the row is the example N beside the cases."""
    expected = float(found.line["reward"] if reward is None else reward)
    if not isfinite(expected):
        raise UserError(f"{expected} is not a reward: that is a finite number.", "For example: --reward 0")
    if oracle and expected <= 0:
        raise UserError(f"An oracle's answer is paid, and this one gets {expected:g}.", "Leave --oracle out.")
    given = found.line["response"]
    response = {key: given[key] for key in KEPT if given.get(key) is not None}
    number = ExampleRows(cases).index_of(found.row)
    asked = {"row": number, "request": {"response": response}}
    whole = {
        "request": {**{key: value for key, value in found.row.items() if key != "agent_ref"}, "response": response}
    }
    calls = [] if not steps else _steps(response["output"])
    return {
        "name": name or f"rollout {found.key}",
        "kind": "zero_reward" if expected <= 0 else "full_reward" if expected >= 1 or oracle else "partial",
        **(whole if number is None else asked),
        **({"steps": calls} if calls else {}),
        "expected_reward": expected,
        **({"oracle": True} if oracle else {}),
    }


def _steps(output: Any) -> list[dict[str, Any]]:
    """The calls that were answered: what they did may stand in the session that verify sees."""
    answered = {one.get("call_id") for one in output if one.get("type") == "function_call_output"}
    made = []
    for call in items.function_calls(output):
        try:
            arguments = orjson.loads(call.get("arguments") or "{}")
        except orjson.JSONDecodeError:
            continue  # no server was asked
        if call.get("call_id") in answered and isinstance(arguments, dict):
            made.append({"tool": call["name"], "arguments": arguments})
    return made


def _row_of(line: dict[str, Any], materialized: Path) -> dict[str, Any]:
    """As the collector sent it; where that file is gone, what of the rollout is not a verdict."""
    wanted = (line.get(TASK), line.get(ROLLOUT))
    if materialized.is_file():
        for row in _lines(materialized):
            if (row.get(TASK), row.get(ROLLOUT)) == wanted:
                return _plain(row)
    return _plain({key: value for key, value in line.items() if key not in ("response", "reward", "reason", STAMP)})


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.startswith("_ng_")}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    found = read_json(line)
                except ValueError as error:
                    raise UserError(f"{path}:{number}: not JSON: {error}") from None
                if isinstance(found, dict):
                    yield found
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "gym rollouts … -o writes one") from None
