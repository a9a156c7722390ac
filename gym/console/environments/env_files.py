"""Texts of an environment's folder, and of nothing outside it: README, example rows, verifier cases, figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from gym.config.example_rows import example_of, shorten
from gym.errors import UserError
from gym.wire import items

MAX_TEXT: Final = 300_000  # characters of a README
MAX_FILE: Final = 20_000_000  # bytes of a file of rows or cases that are read
MAX_ROWS, MAX_CASES = 30, 300
MAX_CALLS, MAX_CALL = 8, 300  # of a verifier case, and characters of each
LARGE_ROW: Final = 60_000  # characters; of a larger one texts are shortened on the page
README: Final = Path("README.md")
CASES: Final = Path("data") / "verifier_cases.jsonl"
Json = dict[str, Any]


class EnvFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def readme(self) -> str:
        return self._text(README)[:MAX_TEXT]

    def rows(self) -> Json:
        found = self._all_rows()
        return {"total": len(found), "shown": [_row_view(row) for row in found[:MAX_ROWS]]}

    def row(self, number: int) -> Json:
        """The row with this number, from 0, as it is in the file."""
        found = self._all_rows()
        if number >= len(found):
            raise UserError(f"there is no example row {number}: there are {len(found)}, counted from 0")
        return found[number]

    def tools_of_rows(self) -> list[Json]:
        """Each that a row lists, once."""
        found: dict[str, Json] = {}
        for row in self._all_rows():
            params = row.get("responses_create_params")
            listed = params.get("tools") if isinstance(params, dict) else None
            for one in listed if isinstance(listed, list) else ():
                if isinstance(one, dict):
                    found.setdefault(str(one.get("name")), one)
        return list(found.values())

    def cases(self) -> Json:
        found = list(self._objects(CASES))
        return {"total": len(found), "shown": [_case_view(one) for one in found[:MAX_CASES]]}

    def metrics(self) -> list[Json]:
        """Of the rollouts that came with it, by agent."""
        return [
            {"file": path.name, "agent": agent, "figures": figures}
            for path in sorted((self._folder / "data").glob("*metrics*.json"))
            for agent, figures in _key_figures(self._text(path.relative_to(self._folder)))
        ]

    def _all_rows(self) -> list[Json]:
        return list(self._objects(example_of(self._folder).relative_to(self._folder)))

    def _objects(self, name: Path) -> Iterator[Json]:
        """`gym test` says what is wrong with the other lines."""
        for line in self._text(name).splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found

    def _text(self, name: Path) -> str:
        """Empty where there is none. A link out of the folder is not followed."""
        path = self._folder / name
        try:
            if leads_out(self._folder, name):
                return ""
            with path.open("rb") as file:
                return file.read(MAX_FILE).decode("utf-8", "replace")
        except OSError:
            return ""


def leads_out(folder: Path, name: Path) -> bool:
    """Whether the file is a link to elsewhere."""
    return not (folder / name).resolve().is_relative_to(folder.resolve())


def _row_view(row: Json) -> Json:
    params = row.get("responses_create_params")
    asked = items.last_user_text(params.get("input")) if isinstance(params, dict) else ""
    large = len(json.dumps(row)) > LARGE_ROW
    return {"title": " ".join(asked.split())[:200], "row": shorten(row) if large else row, "shortened": large}


def _case_view(case: Mapping[str, Any]) -> Json:
    request = case.get("request")
    response = request.get("response") if isinstance(request, dict) else None
    output = response.get("output") if isinstance(response, dict) else None
    steps, error = case.get("steps"), case.get("expected_error")
    return {
        "name": str(case.get("name", "")),
        "kind": str(case.get("kind", "")),
        "reward": case.get("expected_reward"),
        "error": error if isinstance(error, dict) else None,
        "answer": items.last_assistant_text(output)[:2000],
        "calls": len(items.function_calls(output)) + (len(steps) if isinstance(steps, list) else 0),
        "said": [_call_text(one) for one in islice(items.function_calls(output), MAX_CALLS)],
    }


def _call_text(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f"{call.get('name')}({text})"[:MAX_CALL]


def _key_figures(text: str) -> Iterator[tuple[str, Json]]:
    try:
        found = json.loads(text)
    except ValueError:
        return
    for one in islice((one for one in found if isinstance(one, dict)) if isinstance(found, list) else (), 20):
        agent, figures = one.get("agent_ref"), one.get("key_metrics")
        if isinstance(figures, dict):
            yield str(agent.get("name", "") if isinstance(agent, dict) else ""), dict(islice(figures.items(), 40))
