"""Rollouts as one HTML file that needs nothing else. Refuses what a browser could not open; a sample is even."""

from __future__ import annotations

import orjson

from gym.console.viewer.note_routes import NotedRollouts
from gym.console.viewer.page import make_file
from gym.console.viewer.query import Place
from gym.console.viewer.rollout_files import RolloutFiles
from gym.errors import UserError

MAX_ROLLOUTS = 5_000
MAX_BYTES = 100 << 20


def embed_rollouts(files: RolloutFiles, sample: int | None = None) -> bytes:
    shown = [(files.runs.number(file), file) for file in files.runs.shown()]
    places = [(number, index) for number, file in shown for index in range(len(file))]
    chosen = spread_evenly(places, sample) if sample is not None else places
    _check_size(files, chosen, len(places))
    summary = files.summary() | {"sampled": [len(chosen), len(places)] if len(chosen) < len(places) else None}
    rows = orjson.dumps([files.view(place) for place in chosen])
    bodies = b",".join(_body(files, place) for place in chosen)
    asked = {files.view(place)["id"]: files.asked(place) for place in _failures(files, chosen)}
    inputs = b",".join(orjson.dumps(id) + b":" + row for id, row in asked.items() if row)
    return make_file(
        b'{"summary":%b,"rows":%b,"bodies":[%b],"asked":{%b},"notes":%b}'
        % (orjson.dumps(summary), rows, bodies, inputs, orjson.dumps(NotedRollouts(files).by_id()))
    )


def spread_evenly(places: list[Place], count: int) -> list[Place]:
    """So many of them, evenly over all; the same ones each time."""
    if count >= len(places):
        return places
    return [places[(2 * each + 1) * len(places) // (2 * count)] for each in range(count)]


def _check_size(files: RolloutFiles, chosen: list[Place], there: int) -> None:
    size = sum(files.files[number].columns.lengths[index] for number, index in chosen)
    if len(chosen) <= MAX_ROLLOUTS and size <= MAX_BYTES:
        return
    fitting = max(1, min(MAX_ROLLOUTS, len(chosen) * MAX_BYTES // max(size, 1)))
    raise UserError(
        f"A page of {len(chosen)} rollouts ({size >> 20} MB) is more than a browser opens with ease: "
        f"{MAX_ROLLOUTS} rollouts and {MAX_BYTES >> 20} MB fit at most.",
        f"Take some, evenly out of the {there}: --sample {fitting}. Or serve them all: the same command without -o.",
    )


def _body(files: RolloutFiles, place: Place) -> bytes:
    return orjson.dumps(files.problem(place)) if files.is_malformed(place) else files.line(place)


def _failures(files: RolloutFiles, places: list[Place]) -> list[Place]:
    return [place for place in places if files.files[place[0]].failed and not files.is_malformed(place)]
