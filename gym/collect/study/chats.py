"""A rollout as a conversation: what it was asked, what it said, the tools it had, the way trainers read them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gym.collect.study.recorded import Recorded
from gym.data.row_parsing import PARAMS
from gym.errors import UserError
from gym.wire.chat import responses_to_chat
from gym.wire.failures import RolloutError
from gym.wire.items import Item, input_items


class Conversation(NamedTuple):
    prompt: list[Item]
    answer: list[Item]
    tools: list[Item]


def rollout_to_conversation(rollout: Recorded) -> Conversation:
    """Raises with file:line where an item has no form in a chat."""
    params, response = rollout.fields.get(PARAMS), rollout.fields.get("response")
    if not isinstance(params, dict) or not isinstance(response, dict):
        lacking = "response" if isinstance(params, dict) else PARAMS
        raise UserError(f"{rollout.where}: {lacking}: is missing, so there is no conversation")
    asked = {name: params[name] for name in ("instructions", "tools") if params.get(name)}
    try:
        prompt = responses_to_chat({**asked, "input": input_items(params.get("input"))})
        answer = responses_to_chat({"input": response.get("output") or []})
    except RolloutError as error:
        raise UserError(f"{rollout.where}: {error.message}", "add --skip-bad-rows to leave such rollouts out") from None
    if not answer["messages"]:
        raise UserError(f"{rollout.where}: response.output: is empty", "add --skip-bad-rows to leave such rollouts out")
    tools: list[Item] = prompt.get("tools") or []
    return Conversation(_plain(prompt["messages"]), _plain(answer["messages"]), tools)


def _plain(messages: list[Item]) -> list[Item]:
    """Text alone as a string: chat templates of many models take nothing else. A null content is an empty one."""
    return [{**message, "content": _text_of(message.get("content"))} for message in messages]


def _text_of(content: Any) -> Any:
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content
