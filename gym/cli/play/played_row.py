"""One row on the resources server of a running stack, with a person as its policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx

from gym.cli.play.typed_turn import HOW, Left, describe_tool, read_turn
from gym.client import Stack, conversation
from gym.errors import UserError
from gym.labels import HEADER_EPISODE_OVER
from gym.wire import items
from gym.wire.failures import error_from_reply
from gym.wire.person_play import BEGINS_WITH_STEPS, NOT_ONE, PersonCall, PersonPlay

Json = dict[str, Any]


class PlayedRow:
    """Session, tools and verdict as an agent has them; `say` shows a line, `read` takes one."""

    def __init__(
        self, stack: Stack, server: str, row: Json, say: Callable[[str], None], read: Callable[[], str]
    ) -> None:
        self._stack, self._server = stack, server
        self._say, self._read = say, read
        self._cookies: dict[str, str] = {}
        self._play = PersonPlay(row)

    def play(self) -> Json | None:
        """The verdict; None where the person has left before it."""
        play = self._play
        begun = self._send(BEGINS_WITH_STEPS, play.row, missing_is_fine=True)
        given = begun if begun is not None else self._send("/seed_session", play.row) or {}
        play.begin(given, steps=begun is not None)
        if play.lacks_tools:
            play.tools = self._own_tools()
        self._show_beginning()
        try:
            while play.verdict is None:
                self._take(play.take_turn(read_turn(self._read, play.tools, self._say)))
        except Left:
            self._send(play.close_path, {}, missing_is_fine=True)
            return None
        return play.verdict

    def _take(self, call: PersonCall) -> None:
        play = self._play
        if call.is_tool:
            reply = self._post(call.path, call.body)
            self._show(play.take_output(reply.text))
            if HEADER_EPISODE_OVER in reply.headers:
                self._take(play.ask_verdict())
        elif play.steps:
            self._show(play.take_step(self._send(call.path, call.body) or {}))
            if play.verdict is None:
                self._say(f"(reward so far {sum(play.rewards):g})")
        else:
            play.take_verdict(self._send(call.path, call.body) or {})

    def _show_beginning(self) -> None:
        self._show(self._play.prompt)
        if self._play.tools:
            self._say(f"tools: {', '.join(map(describe_tool, self._play.tools))}")
        self._say(HOW)

    def _show(self, new: Sequence[items.Item]) -> None:
        for line in conversation({"output": new}):
            self._say(line)

    def _own_tools(self) -> list[Json]:
        reply = self._stack.get(self._server, "/tools")
        return list(reply.json()) if reply.status_code == httpx.codes.OK else []

    def _send(self, path: str, body: Json, *, missing_is_fine: bool = False) -> Json | None:
        reply = self._post(path, body)
        if missing_is_fine and reply.status_code in NOT_ONE:
            return None
        if reply.status_code >= httpx.codes.BAD_REQUEST:
            raise error_from_reply(reply.status_code, reply.content, server=self._server, kind="resources")
        found = reply.json()
        if not isinstance(found, dict):
            raise UserError(f"{self._server}: {path} answered with something that is not an object")
        return found

    def _post(self, path: str, body: Json) -> httpx.Response:
        reply = self._stack.post(self._server, path, body, cookies=self._cookies)
        self._cookies |= dict(reply.cookies)
        return reply
