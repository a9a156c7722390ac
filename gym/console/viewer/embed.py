"""Rollouts as one HTML file that needs nothing else. Refuses what a browser could not open; a sample is even."""

from __future__ import annotations

import orjson

from gym.console.viewer.page import make_file
from gym.console.viewer.query import Place
from gym.console.viewer.shelf import Shelf
from gym.errors import UserError

MOST_ROLLOUTS = 5_000
MOST_BYTES = 100 << 20


def embed_rollouts(shelf: Shelf, sample: int | None = None) -> bytes:
    places = [(number, index) for number, file in enumerate(shelf.files) for index in range(len(file))]
    chosen = spread_evenly(places, sample) if sample is not None else places
    _check_size(shelf, chosen, len(places))
    summary = shelf.summary() | {"sampled": [len(chosen), len(places)] if len(chosen) < len(places) else None}
    rows = orjson.dumps([shelf.view(place) for place in chosen])
    bodies = b",".join(_body(shelf, place) for place in chosen)
    asked = {f"{number}/{index}": shelf.asked((number, index)) for number, index in _failures(shelf, chosen)}
    inputs = b",".join(orjson.dumps(id) + b":" + row for id, row in asked.items() if row)
    return make_file(
        b'{"summary":%b,"rows":%b,"bodies":[%b],"asked":{%b}}' % (orjson.dumps(summary), rows, bodies, inputs)
    )


def spread_evenly(places: list[Place], count: int) -> list[Place]:
    """So many of them, evenly over all; the same ones each time."""
    if count >= len(places):
        return places
    return [places[(2 * each + 1) * len(places) // (2 * count)] for each in range(count)]


def _check_size(shelf: Shelf, chosen: list[Place], there: int) -> None:
    size = sum(shelf.files[number].lengths[index] for number, index in chosen)
    if len(chosen) <= MOST_ROLLOUTS and size <= MOST_BYTES:
        return
    fitting = max(1, min(MOST_ROLLOUTS, len(chosen) * MOST_BYTES // max(size, 1)))
    raise UserError(
        f"A page of {len(chosen)} rollouts ({size >> 20} MB) is more than a browser opens with ease: "
        f"{MOST_ROLLOUTS} rollouts and {MOST_BYTES >> 20} MB are the most.",
        f"Take some, evenly out of the {there}: --sample {fitting}. Or serve them all: the same command without -o.",
    )


def _body(shelf: Shelf, place: Place) -> bytes:
    return orjson.dumps(shelf.trouble(place)) if shelf.is_malformed(place) else shelf.line(place)


def _failures(shelf: Shelf, places: list[Place]) -> list[Place]:
    return [place for place in places if shelf.files[place[0]].failed and not shelf.is_malformed(place)]
