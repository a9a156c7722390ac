"""`Model`: OpenAI-shaped inference. An author overrides `respond` or `chat`; every dialect comes from that one.

Bodies are checked where a mistake would be silent and travel on whole: unknown fields and token ids are kept.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from gym.errors import UserError
from gym.http.tracing import TRACING
from gym.labels import HEADER_ERROR, HEADER_POLICY
from gym.server.asgi import Answer, Call, Handler
from gym.server.base import Route, Server, event_answer, json_answer
from gym.server.capture import Capture
from gym.server.config import ServerConfig, Settings
from gym.server.grown_input import MIN_BODY, LastRequests
from gym.server.policy_upstreams import PolicyUpstreams
from gym.server.request_body import parse_body
from gym.server.trace_store import CaptureLimits
from gym.server.traced_routes import describe_model_call
from gym.server.upstream import CallContext, Upstream, caller
from gym.wire import sse
from gym.wire.allowed_hosts import PUBLIC, AllowedHosts
from gym.wire.anthropic import error_to_message, estimate_tokens, messages_to_responses, response_to_message
from gym.wire.chat import completion_to_response, responses_to_chat
from gym.wire.completions import chat_to_responses, response_to_completion
from gym.wire.failures import RolloutError
from gym.wire.items import are_objects
from gym.wire.json_text import write_json
from gym.wire.policy_endpoint import URL, PolicyEndpoint, policy_of_headers
from gym.wire.token_ids import TRIPLE
from gym.wire.unread import read_with_items

Body = dict[str, Any]
MODELS = "/v1/models/"  # and a name
UNFINISHED = ("failed", "cancelled", "queued", "in_progress")  # of a response that is not an answer of the policy


class ModelConfig(ServerConfig):
    """Subclass it, and annotate `config: MyConfig` in the model, to add fields."""

    capture: CaptureLimits = CaptureLimits()
    """How much of recorded sessions is kept, below."""


class ProviderConfig(ModelConfig):
    """Of a model that calls a provider with `open_upstream`."""

    policy_urls: str | list[str] | None = None
    """Which endpoints rollouts may bring along, by pattern; `null`: what the stack says."""


class Model(Server):
    role: ClassVar[str] = "model"
    server_type: ClassVar[str] = "responses_api_models"
    reads_input: bool = True  # False: `respond` mostly passes it on, and changes no item of it
    takes_policies: bool = False  # calls may name the endpoint that answers them
    sets_cookie: bool = False  # True: callers without a rollout id get a cookie, so their calls can be kept together
    config: ModelConfig

    def __init__(self, config: ModelConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.config = config
        self.capture = Capture(config.name, config.capture, settings)
        self._last = LastRequests()
        self._cookie = f"{type(self).__name__}___{config.name}"
        kind = type(self)
        if kind.respond is Model.respond and kind.chat is Model.chat:
            raise UserError(f"{kind.__name__} answers nothing yet", "override `respond` or `chat`")

    # What an author overrides: at least one of the first two.

    async def respond(self, params: Body) -> Body:
        """A Responses request in, a Responses reply out."""
        return completion_to_response(await self.chat(responses_to_chat(params)), params)

    async def chat(self, body: Body) -> Body:
        """A Chat Completions request in, a chat completion out."""
        return response_to_completion(await self.respond(chat_to_responses(body)), body)

    def model_names(self) -> list[str]:
        return [self.name]

    async def count_tokens(self, params: Body) -> int:
        """How long a Responses request is. An estimate; override it where the tokenizer is at hand."""
        return estimate_tokens(params)

    # What an author may call.

    def open_upstream(self, base_urls: str | Sequence[str], **options: Any) -> Upstream:
        """A provider (`Upstream` has the options), owned. Calls of rollouts that bring an endpoint along go there."""
        urls = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
        own = self.config.policy_urls if isinstance(self.config, ProviderConfig) else None
        allowed = self.settings.document.get("policy_urls", PUBLIC) if own is None else own
        limits = {name: options[name] for name in ("max_concurrent", "timeout") if name in options}
        host = str(self.settings.document.get("policy_host") or "")
        policies = PolicyUpstreams(AllowedHosts(allowed), configured=urls, host=host, **limits)
        self.takes_policies = True
        return self.own(Upstream(urls, policies=policies, **options))

    # What the contract asks for.

    def routes(self) -> list[Route]:
        return [
            Route("/v1/responses", self.capture.recorded(self._on_responses), "OpenAI Responses", raw=True),
            Route("/v1/chat/completions", self.capture.recorded(self._on_chat), "OpenAI Chat Completions"),
            Route("/v1/messages", self.capture.recorded(self._on_messages), "Anthropic Messages"),
            Route("/v1/messages/count_tokens", self._on_count, "About how many tokens a Messages request has"),
            Route("/v1/models", self._on_models, "The models served here", method="GET"),
            Route(MODELS + "{model}", self._on_model, "One of them", method="GET"),
            *self.capture.routes(),
        ]

    def find_route(self, method: str, path: str) -> Handler | None:
        """The name of a model may have slashes."""
        if method == "GET" and path.startswith(MODELS):
            return self._on_model
        return super().find_route(method, path)

    async def end(self) -> None:
        await self.capture.aclose()

    async def _on_responses(self, call: Call) -> Answer:
        body = self._read_request(call)
        check_objects(body, "tools", required=False)
        check_mappings(body, ("reasoning", "text", "metadata"))
        stream = body.pop("stream", None)
        reply, headers = await self._ask(call, self.respond, body, "output")
        if not stream:
            return json_answer(reply, headers)
        return event_answer(sse.response_events(reply), headers, whole=reply)

    def _read_request(self, call: Call) -> Body:
        """With a checked input. Of a conversation that goes on, only what is new is read, where nothing needs more."""
        key = "" if self.reads_input or len(call.body) < MIN_BODY else call.session or call.rollout_id
        if key and (grown := self._last.grow(key, call.body, check_items)) is not None:
            return grown
        body = call.read(parse_request)
        check_input(body.get("input"))
        if key:
            self._last.keep(key, call.body, body)
        return body

    async def _on_chat(self, call: Call) -> Answer:
        body = parse_body(call.body)
        check_objects(body, "messages")
        check_objects(body, "tools", required=False)
        check_mappings(body, ("response_format", "stream_options", "metadata"))
        stream, options = body.pop("stream", None), body.pop("stream_options", None) or {}
        reply, headers = await self._ask(call, self.chat, body, "choices")
        if not stream:
            return json_answer(reply, headers)
        events = sse.completion_events(reply, usage=bool(options.get("include_usage")))
        return event_answer(events, headers, whole=reply)

    async def _on_messages(self, call: Call) -> Answer:
        call.dialect = error_to_message
        body = parse_body(call.body)
        check_objects(body, "messages")
        check_objects(body, "tools", required=False)
        reply, headers = await self._ask(call, self.respond, messages_to_responses(body), "output")
        message = response_to_message(reply, body)
        if not body.get("stream"):
            return json_answer(message, headers)
        return event_answer(sse.message_events(message), headers, whole=message)

    async def _on_models(self, _: Call) -> Answer:
        data = [self._describe(name) for name in self.model_names()]
        page = {"has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return json_answer({"object": "list", "data": data, **page})

    async def _on_model(self, call: Call) -> Answer:
        model = call.path.removeprefix(MODELS)
        known = (*self.model_names(), self.name)
        if model in known:
            return json_answer(self._describe(model))
        what = f"there is no model {model!r} here; there is {' and '.join(known)}"
        error = RolloutError("row", what, server=self.name, status=404).to_dict()
        shown = {**error, "type": "not_found_error", "code": "model_not_found", "param": "model"}
        return Answer(write_json({"type": "error", "error": shown}), 404, ((HEADER_ERROR.encode(), b"row"),))

    def _describe(self, model: str) -> Body:
        """In the words of both dialects that have a list of models."""
        openai = {"id": model, "object": "model", "created": 0, "owned_by": self.name}
        return {**openai, "type": "model", "display_name": model, "created_at": "1970-01-01T00:00:00Z"}

    async def _on_count(self, call: Call) -> Answer:
        call.dialect = error_to_message
        body = parse_body(call.body)
        check_objects(body, "messages")
        check_objects(body, "tools", required=False)
        return json_answer({"input_tokens": await self.count_tokens(messages_to_responses(body))})

    async def _ask(
        self, call: Call, method: Callable[[Body], Awaitable[Body]], body: Body, field: str
    ) -> tuple[Body, tuple[tuple[bytes, bytes], ...]]:
        key = call.rollout_id or call.session or (call.cookies().get(self._cookie, "") if self.sets_cookie else "")
        headers: tuple[tuple[bytes, bytes], ...] = ()
        if self.sets_cookie and not key:
            key = secrets.token_hex(16)
            headers = ((b"set-cookie", f"{self._cookie}={key}; Path=/; HttpOnly; SameSite=lax".encode()),)
        deadline = None if call.timeout is None else asyncio.get_running_loop().time() + call.timeout
        policy = self._policy_of(call)
        if policy is not None:
            headers = (*headers, (HEADER_POLICY.encode(), b"used"))
        caller.set(CallContext(key, deadline, policy))
        reply = await method(body)
        if isinstance(reply, dict) and (reply.get("error") or reply.get("status") in UNFINISHED):
            said = f"{reply.get('status', 'an error')}: {str(reply.get('error'))[:300]}"
            raise RolloutError("model", f"the provider's reply is not an answer: {said}", server=self.name)
        if not isinstance(reply, dict) or not isinstance(reply.get(field), list):
            what = f"{getattr(method, '__qualname__', method)} returned no `{field}` list: {str(reply)[:200]}"
            raise RolloutError("model", what, server=self.name, retryable=False)
        if not are_objects(reply[field]):
            why = f"an entry of its `{field}` is not an object: {str(reply)[:200]}"
            raise RolloutError("model", f"the provider's reply is not an answer: {why}", server=self.name)
        if TRACING.tracer is not None:
            describe_model_call(TRACING.tracer, body, reply)
        return reply, headers

    def _policy_of(self, call: Call) -> PolicyEndpoint | None:
        policy = policy_of_headers(call.headers)
        if policy is not None and not self.takes_policies:
            what = f"{URL}: {self.name} answers by itself and calls no endpoint that another could stand in for"
            raise RolloutError("row", f"{what}. Start the stack with a model that does: gym up ... --model openai")
        return policy


def parse_request(raw: bytes) -> Body:
    """Of Responses: the long arrays of its items may stay unread."""
    return parse_body(raw, partial(read_with_items, kind="row"))


def check_input(value: Any) -> None:
    """A text, or items that are objects; token fields come together or not at all."""
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise RolloutError("row", f"input: a text or a list of items is needed, found {_kind(value)}")
    check_items(value)


def check_items(value: list[Any], first: int = 0) -> None:
    """`first`: how many stand before them."""
    for index, item in enumerate(value, first):
        if not isinstance(item, dict):
            raise RolloutError("row", f"input[{index}]: an object is needed, found {_kind(item)}")
        if "type" not in item and "role" not in item:
            raise RolloutError("row", f"input[{index}].type: an item has a type, or is a message with a role")
        held = [key for key in TRIPLE if dict.get(item, key) is not None]  # unread arrays stay unread
        if held and len(held) != len(TRIPLE):
            missing = ", ".join(key for key in TRIPLE if key not in held)
            raise RolloutError("row", f"input[{index}].{held[0]}: token fields come together; missing: {missing}")


def check_objects(body: Mapping[str, Any], field: str, *, required: bool = True) -> None:
    value = body.get(field)
    if value is None and not required:
        return
    if not isinstance(value, list) or (required and not value):
        raise RolloutError("row", f"{field}: a list of objects is needed, found {_kind(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise RolloutError("row", f"{field}[{index}]: an object is needed, found {_kind(item)}")


def check_mappings(body: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    for field in fields:
        if body.get(field) is not None and not isinstance(body[field], dict):
            raise RolloutError("row", f"{field}: an object is needed, found {_kind(body[field])}")


def _kind(value: Any) -> str:
    return "nothing" if value is None else "an empty list" if value == [] else type(value).__name__
