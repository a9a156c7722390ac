"""One row on the resources server of a running stack, with a person as its policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from gym.cli.play.typed_turn import HOW, Left, describe_tool, read_turn
from gym.client import Stack, conversation
from gym.errors import UserError
from gym.wire import items
from gym.wire.failures import error_from_reply
from gym.wire.observations import observation_items

Json = dict[str, Any]
MISSING = (404, 405)


class PlayedRow:
    """Session, tools and verdict as an agent has them; `say` shows a line, `read` takes one."""

    def __init__(
        self, stack: Stack, server: str, row: Json, say: Callable[[str], None], read: Callable[[], str]
    ) -> None:
        self._stack, self._server, self._row = stack, server, row
        self._say, self._read = say, read
        self._cookies: dict[str, str] = {}
        self._output: list[items.Item] = []
        self._tools: list[Json] = []

    def play(self) -> Json | None:
        """The verdict; None where the person has left before it."""
        begun = self._send("/reset", self._row, missing_is_fine=True)
        steps = begun is not None
        given = begun if begun is not None else self._send("/seed_session", self._row) or {}
        self._tools = self._offered(given)
        self._show_beginning(given)
        try:
            return self._play_steps() if steps else self._play_calls()
        except Left:
            self._send("/close", {}, missing_is_fine=True)
            return None

    def _play_calls(self) -> Json:
        """Calls, until there is an answer; it is verified."""
        while True:
            turn = read_turn(self._read, self._tools, self._say)
            self._output.append(turn)
            if turn["type"] == "message":
                return self._send("/verify", {**self._row, "response": self._response(self._output)}) or {}
            reply = self._post(f"/{turn['name']}", json.loads(turn["arguments"]))
            self._add([items.function_call_output(turn["call_id"], reply.text)])

    def _play_steps(self) -> Json:
        """Replies to an environment of steps, until it ends; the rewards add up."""
        rewards: list[float] = []
        while True:
            turn = read_turn(self._read, self._tools, self._say)
            step = self._send("/step", {**self._row, "response": self._response([turn])}) or {}
            rewards.append(float(step.get("reward") or 0.0))
            info = step.get("info") or {}
            outputs = [
                items.function_call_output(one["call_id"], one["output"]) for one in info.get("tool_outputs") or ()
            ]
            self._add([*outputs, *observation_items(step.get("observation"))])
            if step.get("terminated") or step.get("truncated"):
                return {"reward": sum(rewards), "reason": info.get("reason", "")}
            self._say(f"(reward so far {sum(rewards):g})")

    def _show_beginning(self, given: Mapping[str, Any]) -> None:
        asked = items.input_items(self._row["responses_create_params"].get("input"))
        shown = [*asked, *observation_items(given.get("observation"))]
        for line in conversation({"output": [{"type": "message", **one} for one in shown]}):
            self._say(line)
        if self._tools:
            self._say(f"tools: {', '.join(map(describe_tool, self._tools))}")
        self._say(HOW)

    def _offered(self, given: Mapping[str, Any]) -> list[Json]:
        """Those of the row and of its session; else all that the server has."""
        listed = self._row["responses_create_params"].get("tools")
        own = [*(listed if isinstance(listed, list) else ()), *(given.get("tools") or ())]
        if own or listed == []:
            return own
        reply = self._stack.get(self._server, "/tools")
        return list(reply.json()) if reply.status_code == httpx.codes.OK else []

    def _add(self, new: list[items.Item]) -> None:
        self._output.extend(new)
        for line in conversation({"output": new}):
            self._say(line)

    def _response(self, output: list[items.Item]) -> Json:
        return items.response(output, model="a person")

    def _send(self, path: str, body: Json, *, missing_is_fine: bool = False) -> Json | None:
        reply = self._post(path, body)
        if missing_is_fine and reply.status_code in MISSING:
            return None
        if reply.status_code >= httpx.codes.BAD_REQUEST:
            raise error_from_reply(reply.status_code, reply.content, server=self._server, kind="resources")
        found = reply.json()
        if not isinstance(found, dict):
            raise UserError(f"{self._server}: {path} answered with something that is no object")
        return found

    def _post(self, path: str, body: Json) -> httpx.Response:
        reply = self._stack.post(self._server, path, body, cookies=self._cookies)
        self._cookies |= dict(reply.cookies)
        return reply
