"""An OpenAI chat endpoint before an engine that takes and gives token ids, as trainers hold one in their own process.

It answers the episodes that are open and no one else, with the ids and log-probs of the very tokens that were drawn.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from secrets import token_urlsafe
from typing import Any, Final

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gym.wire.items import new_id
from gym.wire.token_ids import GENERATION

Json = dict[str, Any]
Generate = Callable[[list[int], Any], Awaitable[Any]]  # prompt ids and sampling parameters to a request's output
CALL, CALL_END = "<tool_call>", "</tool_call>"
KEEP_ALIVE: Final = 75  # seconds: longer than a stack keeps an idle connection


class EngineEndpoint:
    def __init__(self, tokenizer: Any, generate: Generate) -> None:
        self._tokenizer, self._generate = tokenizer, generate
        self._episodes: dict[str, tuple[Any, int]] = {}  # sampling parameters and the longest sequence, by id
        self._url = ""

    async def start(self, host: str) -> None:
        """On this event loop, which is the engine's, at a port that is free."""
        app = Starlette(routes=[Route("/{episode}/v1/chat/completions", self._answer, methods=["POST"])])
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind((host, 0))
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=KEEP_ALIVE)
        self._server = uvicorn.Server(config)
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[listener])  # not `serve`, which takes over the signals of the process
        self._url = f"http://{host}:{listener.getsockname()[1]}"

    async def aclose(self) -> None:
        await self._server.shutdown()

    @contextmanager
    def episode(self, params: Any, max_length: int) -> Iterator[str]:
        """The base URL of one episode, for as long as it lasts."""
        name = token_urlsafe(16)
        self._episodes[name] = (params, max_length)
        try:
            yield f"{self._url}/{name}/v1"
        finally:
            del self._episodes[name]

    async def _answer(self, request: Request) -> Response:
        known = self._episodes.get(request.path_params["episode"])
        if known is None:
            return _refuse(404, "no such episode is open")
        body = orjson.loads(await request.body())
        params, max_length = deepcopy(known[0]), known[1]
        prompt = make_prompt(self._tokenizer, body)
        room = max_length - len(prompt)
        if room <= 0:
            return _refuse(400, f"maximum context length is {max_length} tokens, and the prompt has {len(prompt)}")
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        params.max_tokens = min(limit for limit in (room, asked, params.max_tokens) if limit)
        params.logprobs = params.logprobs or 0  # 0: of the token that was drawn
        output = (await self._generate(prompt, params)).outputs[0]
        return JSONResponse(make_completion(self._tokenizer, body, prompt, output))


def make_prompt(tokenizer: Any, body: Json) -> list[int]:
    """The conversation as ids. What was drawn before stays as it was drawn: `required_prefix_token_ids`."""
    messages = [_for_template(one) for one in body["messages"]]
    ids = _render(tokenizer, body, messages, add_generation_prompt=True)
    prefix: list[int] = body.get("required_prefix_token_ids") or []
    drawn = [index for index, one in enumerate(body["messages"]) if one.get(GENERATION)]
    end = tokenizer.eos_token_id
    if not prefix or not drawn:
        return ids
    before = _render(tokenizer, body, messages[: drawn[-1] + 1], add_generation_prompt=False)
    if end not in before:
        return ids
    turn = len(before) - before[::-1].index(end)  # where the last turn of the policy ends, in the template's own ids
    if ids[:turn] != before[:turn]:
        return ids
    return [*prefix, *([] if prefix[-1] == end else [end]), *ids[turn:]]


def make_completion(tokenizer: Any, body: Json, prompt: list[int], output: Any) -> Json:
    ids = list(output.token_ids)
    log_probs = [chances[one].logprob for one, chances in zip(ids, output.logprobs, strict=True)]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    text, calls = read_calls(text) if body.get("tools") else (text, [])
    message: Json = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    reason = "length" if output.finish_reason == "length" else "tool_calls" if calls else "stop"
    content = [{"token": f"token_id:{one}", "logprob": chance} for one, chance in zip(ids, log_probs, strict=True)]
    choice = {"index": 0, "message": message, "finish_reason": reason, "token_ids": ids}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
    return {
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [choice | {"logprobs": {"content": content}}],
        "usage": usage,
        "prompt_token_ids": prompt,
    }


def read_calls(text: str) -> tuple[str, list[Json]]:
    """Calls as Hermes and Qwen write them. What is not the JSON of a call stays text, as the policy wrote it."""
    first, *parts = text.split(CALL)
    rest, calls = [first], []
    for part in parts:
        inside, closed, after = part.partition(CALL_END)
        call = _read_call(inside) if closed else None
        if call is not None:
            calls.append(call)
        rest.append(CALL + part if call is None else after)
    return ("".join(rest).strip() if calls else text), calls


def _read_call(text: str) -> Json | None:
    try:
        call = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    function = {"name": call["name"], "arguments": orjson.dumps(call.get("arguments") or {}).decode()}
    return {"id": new_id("call"), "type": "function", "function": function}


def _render(tokenizer: Any, body: Json, messages: list[Json], *, add_generation_prompt: bool) -> list[int]:
    more = {"tools": body.get("tools"), **(body.get("chat_template_kwargs") or {})}
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt, **more)
    ids: list[int] = tokenizer(text=text, add_special_tokens=False)["input_ids"]
    return ids


def _for_template(message: Json) -> Json:
    """Templates want a text, and a call's arguments as an object."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    calls = [{**one, "function": _read_arguments(one["function"])} for one in message.get("tool_calls") or ()]
    return {**message, "content": content or "", **({"tool_calls": calls} if calls else {})}


def _read_arguments(function: Json) -> Json:
    try:
        return {**function, "arguments": orjson.loads(function["arguments"])}
    except orjson.JSONDecodeError:
        return function


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status)
