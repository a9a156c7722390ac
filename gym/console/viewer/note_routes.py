"""What the page asks for about flags and notes: of one rollout, of all, a change, the flagged as JSONL."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from gym.console.pages.json_posts import RefusedPost, parse_post, read_post
from gym.console.pages.shell import NO_STORE, answering, json_reply
from gym.console.viewer.notes import NotesFile, RolloutNote, note_key
from gym.console.viewer.query import Place, read_query
from gym.console.viewer.rollout_files import RolloutFiles

MAX_CHANGE = 200_000  # bytes
MAX_REPEATS = 64


def make_note_routes(files: RolloutFiles, api: str, place: str) -> list[BaseRoute]:
    noted = NotedRollouts(files)
    return [
        Route(f"{api}/notes", answering(noted.all)),
        Route(f"{api}/export", answering(noted.export)),
        Route(f"{place}/notes", answering(noted.one)),
        Route(f"{place}/notes", noted.change, methods=["POST"]),
        Route(f"{place}/repeats", answering(noted.repeats)),
    ]


class NotedRollouts:
    def __init__(self, files: RolloutFiles) -> None:
        self._files = files

    def one(self, request: Request) -> Response:
        notes, key, _ = self._at(self._place(request))
        note = notes.read().get(key, RolloutNote())
        return json_reply(note.to_dict() | {"file": notes.path.name, "problem": notes.problem()})

    def all(self, _: Request) -> Response:
        """Every rollout with a flag or a note, by its id."""
        self._files.refresh()
        found = self.by_id()
        unread = {notes.path: notes.unread for notes in map(self._files.notes.of, self._files.runs.shown())}
        flagged = sum(one["flag"] for one in found.values())
        return json_reply({"notes": found, "flagged": flagged, "unread": sum(unread.values())})

    def export(self, request: Request) -> Response:
        """The flagged rollouts of all runs, or of those that are named, as they stand in their files, each with its
        note as `_note`."""
        self._files.refresh()
        runs = read_query(request.query_params).runs
        flagged = {place: note for place, note in self.places(runs).items() if note.flag}
        headers = {**NO_STORE, "content-disposition": 'attachment; filename="flagged.jsonl"'}
        return StreamingResponse(self._lines(flagged), headers=headers, media_type="application/x-ndjson")

    async def change(self, request: Request) -> Response:
        try:
            body = await read_post(request, MAX_CHANGE)
        except RefusedPost as refused:
            return json_reply({"error": str(refused)}, refused.status)
        return await run_in_threadpool(answering(partial(self._change, body)), request)

    def repeats(self, request: Request) -> Response:
        """The rollouts of the same task in its file, this one among them."""
        number, index = self._place(request)
        file = self._files.files[number]
        with self._files.runs.lock:
            task = file.columns.tasks[index]
            same = [each for each, one in enumerate(file.columns.tasks) if one == task] if task >= 0 else [index]
        return json_reply([self._files.view((number, each)) for each in same[:MAX_REPEATS]])

    def by_id(self) -> dict[str, dict[str, Any]]:
        return {self._files.view(place)["id"]: note.to_dict() for place, note in self.places().items()}

    def places(self, runs: Collection[str] = ()) -> dict[Place, RolloutNote]:
        with self._files.runs.lock:
            return {
                (self._files.runs.number(file), index): note
                for file in self._files.runs.of(runs)
                for index, note in sorted(self._files.notes.find(file).items())
            }

    def _change(self, body: bytes, request: Request) -> Response:
        change = parse_post(body, "a change", '{"flag": true}')
        notes, key, line = self._at(self._place(request))
        return json_reply(notes.change(key, line, change).to_dict())

    def _place(self, request: Request) -> Place:
        return self._files.place(request.path_params["id"])

    def _at(self, place: Place) -> tuple[NotesFile, str, int]:
        file = self._files.files[place[0]]
        key = note_key(self._files.line(place), failed=file.failed)
        return self._files.notes.of(file), key, file.columns.numbers[place[1]]

    def _lines(self, flagged: dict[Place, RolloutNote]) -> Iterator[bytes]:
        for place, note in flagged.items():
            if not self._files.is_malformed(place):
                yield add_note(self._files.line(place), note) + b"\n"


def add_note(line: bytes, note: RolloutNote) -> bytes:
    """The line as it is to the byte, with one more field."""
    head = line.rstrip()[:-1].rstrip()
    separator = b"" if head.endswith(b"{") else b","
    fields: dict[str, Any] = {name: value for name, value in note.to_dict().items() if value}
    return b'%b%b"_note":%b}' % (head, separator, orjson.dumps(fields))
