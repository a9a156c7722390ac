"""A vLLM on a real socket: a chat template, a tokenizer that gives each word its id, and faults on request.

What it is asked becomes a prompt, and prompts are what it counts: a prompt that begins with the former prompt and
generation shows that the texts came back as they were.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from gym.server.testing import running
from gym.wire.sse import completion_events
from tests.support.asgi import live, read_body

Body = dict[str, Any]
Form = Literal["message", "native", "spelled", "none"]
PIECE = re.compile(r"<\|\w+\|>|</?think>|\s?\w+|\s|[^\w\s]")
END = "<|end|>"


@dataclass
class Said:
    """What the model generates: thoughts, text, calls. `content` is the text as the template would have it."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str = ""


@dataclass
class FakeVLLM:
    """`form` is how token ids are given; `spoil` may change a reply before it is sent; `refuses` names a body's key."""

    says: Callable[[list[Body]], Said] = lambda messages: Said(f"echo {_text(messages[-1])}")
    form: Form = "native"
    reasoning_parser: bool = True
    refuses: str = ""
    keeps_prefix: bool = False
    drops_thoughts: bool = False  # of earlier turns, as many a template does
    spoil: Callable[[Body], object] = lambda reply: None
    raw: Callable[[bytes], bytes] = lambda body: body
    cut: bool = False  # the connection, in the middle of the reply
    status: tuple[int, Any] | None = None
    asked: list[tuple[str, Body]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)
    made: list[tuple[list[int], list[int]]] = field(default_factory=list)  # prompt and generation of each chat reply
    url: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        raw = await read_body(receive)
        body = orjson.loads(raw) if raw else {}
        self.asked.append((scope["path"], body))
        self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        status, kind, reply = self._answer(scope["path"], body)
        length = (b"content-length", b"%d" % len(reply))
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), length]})
        if self.cut:
            await send({"type": "http.response.body", "body": reply[: len(reply) // 2], "more_body": True})
            return  # the server closes what was announced longer
        await send({"type": "http.response.body", "body": reply})

    def bodies(self, path: str = "/v1/chat/completions") -> list[Body]:
        return [body for where, body in self.asked if where == path]

    def ids(self, text: str) -> list[int]:
        return [self.words.setdefault(piece, len(self.words) + 100) for piece in PIECE.findall(text)]

    def prompt(self, body: Body) -> list[int]:
        """The template; a prefix that was asked for is kept as it is, where this server can."""
        messages = body["messages"]
        if self.keeps_prefix and (prefix := body.get("required_prefix_token_ids")):
            last = max(index for index, one in enumerate(messages) if one["role"] == "assistant")
            return [*prefix, *self.ids("".join(map(_turn, messages[last + 1 :])) + "<|assistant|>")]
        tools = orjson.dumps(body.get("tools") or []).decode()
        if self.drops_thoughts:
            messages = [{**one, "reasoning": "", "reasoning_content": ""} for one in messages]
        kwargs = orjson.dumps(body.get("chat_template_kwargs") or {}).decode()
        return self.ids(f"<|tools|>{tools}{kwargs}" + "".join(map(_turn, messages)) + "<|assistant|>")

    def _answer(self, path: str, body: Body) -> tuple[int, bytes, bytes]:
        if self.status is not None:
            return self.status[0], b"application/json", orjson.dumps(self.status[1])
        if self.refuses and self.refuses in body:
            refusal = {"error": {"message": f"extra field {self.refuses}", "code": 400}}
            return 400, b"application/json", orjson.dumps(refusal)
        if path == "/tokenize":
            ids = self.ids(body["prompt"]) if "prompt" in body else self.prompt(body)
            return 200, b"application/json", orjson.dumps({"tokens": ids, "count": len(ids), "max_model_len": 4096})
        if path == "/v1/models":
            return 200, b"application/json", b'{"object":"list","data":[]}'
        if path == "/v1/completions":
            return 200, b"application/json", self.raw(orjson.dumps(self._completed(body)))
        if path != "/v1/chat/completions":
            return 404, b"application/json", b'{"detail":"Not Found"}'
        reply = self._chat(body)
        self.spoil(reply)
        if body.get("stream"):
            return 200, b"text/event-stream; charset=utf-8", self.raw(completion_events(reply, usage=True))
        return 200, b"application/json", self.raw(orjson.dumps(reply))

    def _chat(self, body: Body) -> Body:
        said = self.says(body["messages"])
        prompt, generation = self.prompt(body), self.ids(_generated(said) + END)
        self.made.append((prompt, generation))
        message = self._message(said)
        finish = said.finish or ("tool_calls" if said.calls else "stop")
        choice: Body = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        reply: Body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
        reply |= {"choices": [choice], "usage": _usage(len(prompt), len(generation))}
        log_probs = [-0.25 * (number % 7) for number in range(len(generation))]
        if self.form == "message":
            message |= {"prompt_token_ids": prompt, "generation_token_ids": generation}
            message["generation_log_probs"] = log_probs
        elif self.form != "none" and body.get("logprobs"):
            spelled = bool(body.get("return_tokens_as_token_ids"))
            names = [f"token_id:{one}" if spelled else f"w{one}" for one in generation]
            content = [{"token": one, "logprob": value} for one, value in zip(names, log_probs, strict=True)]
            choice["logprobs"] = {"content": content}
        if self.form == "native" and body.get("return_token_ids"):
            reply["prompt_token_ids"], choice["token_ids"] = prompt, generation
        return reply

    def _message(self, said: Said) -> Body:
        message: Body = {"role": "assistant", "content": said.text or None}
        if said.thought and self.reasoning_parser:
            message["reasoning"] = said.thought
        elif said.thought:
            message["content"] = f"<think>{said.thought}</think>{said.text}"
        if said.calls:
            message["tool_calls"] = [
                {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for number, (name, arguments) in enumerate(said.calls)
            ]
        return message

    def _completed(self, body: Body) -> Body:
        prompt = body["prompt"] if isinstance(body["prompt"], list) else self.ids(body["prompt"])
        text = " and so on"
        generation = self.ids(text)
        choice: Body = {"index": 0, "text": text, "finish_reason": "length", "logprobs": None}
        if body.get("logprobs") is not None:
            names = [f"token_id:{one}" for one in generation]
            choice["logprobs"] = {"tokens": names, "token_logprobs": [-0.5] * len(names)}
        if body.get("return_token_ids") and self.form == "native":
            choice |= {"prompt_token_ids": prompt, "token_ids": generation}
        return {"id": "cmpl-1", "created": 1, "model": body["model"], "choices": [choice]}


@asynccontextmanager
async def fake_vllm(**options: Any) -> AsyncIterator[FakeVLLM]:
    server = FakeVLLM(**options)
    async with running(server) as url:
        server.url = f"{url}/v1"
        yield server


def _turn(message: Body) -> str:
    """One message in the prompt; an assistant's is what it generated, if it came back as it was."""
    if message["role"] != "assistant":
        return f"<|{message['role']}|>{_text(message)}{END}"
    calls = [(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls") or ()]
    thought = message.get("reasoning") or message.get("reasoning_content") or ""
    return "<|assistant|>" + _generated(Said(_text(message), thought, calls)) + END


def _generated(said: Said) -> str:
    thought = f"<think>{said.thought}</think>" if said.thought else ""
    return thought + said.text + "".join(f"<|call|>{name}{arguments}" for name, arguments in said.calls)


def _text(message: Body) -> str:
    content = message.get("content")
    return "".join(part.get("text", "") for part in content) if isinstance(content, list) else content or ""


def _usage(prompt: int, generation: int) -> Body:
    return {"prompt_tokens": prompt, "completion_tokens": generation, "total_tokens": prompt + generation}
