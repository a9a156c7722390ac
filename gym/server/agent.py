"""`Agent`: drives a model and a resources server; `/run` answers with a verified rollout.

`respond` is the reference loop. Override it for another policy of turns, `run` for another order of things.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import orjson
from pydantic import Field
from pydantic_core import from_json

from gym import __version__
from gym.http.pool import HttpClient
from gym.labels import HEADER_POLICY, HEADER_SDK, HEADER_STEPS, HEADER_TOOL_ERRORS
from gym.server.agent_tools import AgentTool, AgentTools
from gym.server.asgi import Answer, Call
from gym.server.base import Route, Server, event_answer, json_answer
from gym.server.budget import Budget
from gym.server.config import Reference, ServerConfig, Settings, addresses
from gym.server.model_requests import without_streaming
from gym.server.replicas import Peers
from gym.server.request_body import parse_body
from gym.server.rollout_client import CLOSE_SECONDS, RolloutClient
from gym.server.run_trace import RunTrace, add_trace, wants_trace
from gym.server.tools import NAME, RESERVED
from gym.wire import items, metrics, sse
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_any_json, write_json
from gym.wire.observations import add_seeded
from gym.wire.policy_endpoint import (
    FIELDS,
    URL,
    PolicyEndpoint,
    mask_body,
    mask_key,
    masking,
    policy_of_headers,
    take_policy,
)
from gym.wire.rows import DEFAULTS, PARAMS, CreateParams, Row, VerifyResponse, fill_params
from gym.wire.splice import WrittenList, splice
from gym.wire.step_times import write_steps


class AgentConfig(ServerConfig):
    """Budgets are on by default; `null` switches one off."""

    resources_server: Reference | None = None
    """The environment it works for, as `{type: resources_servers, name: NAME}`."""
    model_server: Reference | None = None
    """The model it asks, as `{type: responses_api_models, name: NAME}`."""
    max_steps: int | None = Field(default=100, ge=1)
    """Model calls of one rollout."""
    max_tool_calls: int | None = Field(default=500, ge=0)
    """Tool calls of one rollout."""
    max_total_tokens: int | None = Field(default=4_000_000, ge=1)
    """Tokens of one rollout, prompts counted at every call."""
    max_seconds: float | None = Field(default=3600.0, gt=0)
    """Time of one rollout."""
    skip_verification: bool = False
    """Never ask the verifier; every rollout gets the reward below."""
    skip_verification_reward: float = 0.0
    """The reward of a rollout that was not verified."""
    return_trace: bool = False
    """Give every model call of a rollout below `trace` of its reply; a row's own field decides."""
    token_id_capture: Any = None
    """Read, because NeMo Gym's configurations have it, and not used: token ids come from the model server."""
    agents: dict[str, AgentTool] = Field(default_factory=dict)
    """Other agents that its model may call as tools, by the tool's name."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """The body of `/run`: as it came, and parsed once."""

    body: bytes
    fields: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.fields["responses_create_params"]
        return params

    def with_params(self, params: Mapping[str, Any]) -> RunRow:
        changed = {PARAMS: params}
        return RunRow(splice(self.body, changed, keys=self.fields), {**self.fields, **changed})


class Agent(Server):
    """Subclass it, and annotate `config: MyConfig` to add fields."""

    role: ClassVar[str] = "agent"
    server_type: ClassVar[str] = "responses_api_agents"
    config: AgentConfig

    def __init__(self, config: AgentConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.config = config
        self.http = HttpClient()
        self.peers = Peers(settings.discovery, addresses(settings.document), self.http)
        self._leaving: set[asyncio.Task[None]] = set()

    def _calls_made(self) -> Mapping[str, int]:
        return self.peers.asked

    # What an author may override.

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        """Seed, respond, verify: the body of the verified rollout."""
        row = await self.seed(row, rollout)
        response = await self.respond_to(row, rollout)
        if self.config.skip_verification:
            fields = {
                "response": response,
                "reward": self.config.skip_verification_reward,
                "verification_skipped": True,
            }
            return splice(row.body, fields, keys=row.fields)
        return await rollout.verify(row.body, row.fields, response)

    async def seed(self, row: RunRow, rollout: RolloutClient) -> RunRow:
        """The row of an open session: with the tools and the first observation that the environment has for it."""
        if self.config.resources_server is None:
            return row
        given = await rollout.seed(row.body, may_leave_out=not self.config.skip_verification)
        return row.with_params(add_seeded(row.params, given)) if given else row

    async def respond_to(self, row: RunRow, rollout: RolloutClient) -> dict[str, Any]:
        """The response to a row. Override it where more of the row than its parameters matters."""
        return await self.respond(row.params, rollout)

    async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> dict[str, Any]:
        """Ask the model, run its calls one after another, until it only talks or a budget is spent."""
        agent_tools = rollout.agent_tools = rollout.agent_tools or AgentTools(self.config.agents)
        params = agent_tools.offered(params)
        asked = items.input_items(params.get("input"))
        output: list[items.Item] = []
        said = WrittenList()  # at each step the model is sent all of it again; it is written once
        usage: dict[str, Any] | None = None
        budget = rollout.budget or Budget(self.config)
        while True:
            reply = await rollout.ask_model(params, said=said.up_to(asked + output))
            new = reply["output"]
            output.extend(new)
            usage = items.add_usage(usage, reply.get("usage"))
            calls = items.function_calls(new)
            talked = any(items.is_message(item) for item in new)
            if reply.get("incomplete_details") or (talked and not calls):
                break
            for call in calls[: budget.calls_left]:
                output.append(await self.call_tool(call, rollout))
            spent = budget.spend(calls=len(calls), tokens=(usage or {}).get("total_tokens"), idle=not calls)
            if spent or rollout.episode_over:
                break
        response = {**reply, "output": output, "usage": usage}
        if agent_tools.record:
            response["agent_calls"] = agent_tools.record
        return {**response, "truncated_by": budget.spent} if budget.spent else response

    async def call_tool(self, call: items.Item, rollout: RolloutClient) -> items.Item:
        """The output item of one call. The model gets its own mistakes as the output."""
        name, call_id = str(call.get("name", "")), str(call.get("call_id") or call.get("id") or "")
        agent_tools = rollout.agent_tools if rollout.agent_tools and name in rollout.agent_tools else None
        if agent_tools is None and (name in RESERVED or not NAME.fullmatch(name)):
            return items.function_call_output(call_id, _error_output(f"There is no tool named {name!r}"))
        arguments = call.get("arguments") or "{}"
        try:
            orjson.loads(arguments)
        except (orjson.JSONDecodeError, TypeError) as error:
            return items.function_call_output(call_id, _error_output(f"Invalid tool call arguments: {error!r}"))
        if agent_tools is not None:
            return items.function_call_output(call_id, await agent_tools.ask(call, rollout))
        _, text = await rollout.call_tool(name, arguments.encode("utf-8", "replace"))
        return items.function_call_output(call_id, text)

    # What the contract asks for.

    def routes(self) -> list[Route]:
        return [
            Route("/run", self._on_run, "A verified rollout of one row", Row, VerifyResponse, raw=True),
            Route("/v1/responses", self._on_responses, "The loop alone, without seed and verify", CreateParams),
            Route("/aggregate_metrics", self._on_aggregate, "Metrics over verify replies"),
        ]

    async def end(self) -> None:
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=CLOSE_SECONDS)
        await self.http.aclose()

    async def _on_run(self, call: Call) -> Answer:
        row = call.read(parse_run)
        policy = self._policy_of(call, row.fields)
        row = without_policy(row)
        async with self._rollout(call, call.rollout_id or _own_id(row.fields), policy) as rollout:
            if wants_trace(row.fields, self.config.return_trace):
                rollout.trace = RunTrace()
            try:
                with masking(policy):
                    body = await self.run(row, rollout)
                    body = add_trace(body, await rollout.fetch_trace()) if rollout.trace else body
            finally:
                call.failure_headers = _headers_of(rollout)
                self._take_leave(rollout)
            return Answer(mask_body(body, policy), headers=(*call.failure_headers, *_taken(policy)))

    async def _on_responses(self, call: Call) -> Answer:
        asked = parse_params(call.body)
        policy = self._policy_of(call, asked)
        params = {name: value for name, value in asked.items() if name not in FIELDS}
        async with self._rollout(call, call.rollout_id, policy) as rollout:
            with masking(policy):
                response = await self.respond(without_streaming(params), rollout)
            if policy is not None and policy.key:
                response = mask_key(response, policy.key)
            cookies = tuple(
                (b"set-cookie", f"{name}={value}; Path=/".encode()) for name, value in rollout.cookies.items()
            )
            headers = (*cookies, _timing(rollout.spent), *_taken(policy))
            return (
                event_answer(sse.response_events(response), headers)
                if asked.get("stream")
                else json_answer(response, headers)
            )

    async def _on_aggregate(self, call: Call) -> Answer:
        """The resources server knows its own metrics; without one, the baseline of them all."""
        if self.config.resources_server is not None:
            async with self._rollout(call, "") as rollout:
                name = self.config.resources_server.name
                reply = await rollout.post(name, "/aggregate_metrics", call.body, kind="resources", hop="metrics")
                return Answer(reply.body)
        return json_answer(metrics.aggregate(metrics.parse_replies(call.body)))

    def _take_leave(self, rollout: RolloutClient) -> None:
        """Of a rollout that failed, was cancelled or is not verified; by a task of its own, for ours may be ending."""
        if rollout.session_open or rollout.trace:
            task = asyncio.get_running_loop().create_task(rollout.leave())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _policy_of(self, call: Call, fields: Mapping[str, Any]) -> PolicyEndpoint | None:
        """The endpoint that answers for the policy in this rollout, said by its body or by the agent that asks us."""
        policy = take_policy(fields) or policy_of_headers(call.headers)
        if policy is None:
            return None
        own = self.config.model_server.name if self.config.model_server else ""
        if not own and not self.config.agents:
            what = f"{self.name} asks no model: its configuration names no model_server that {URL} could stand in for"
            raise RolloutError("row", f"{what}. Leave the policy_... fields out, or ask another agent")
        return policy if policy.replaces else replace(policy, replaces=own)

    def _rollout(self, call: Call, rollout_id: str, policy: PolicyEndpoint | None = None) -> RolloutClient:
        limits = [limit for limit in (self.config.max_seconds, call.timeout) if limit is not None]
        return RolloutClient(
            self.http,
            self.peers,
            seconds=min(limits, default=30 * 24 * 3600.0),
            id=rollout_id,
            cookies=call.cookies(),
            model_server=self.config.model_server.name if self.config.model_server else "",
            resources_server=self.config.resources_server.name if self.config.resources_server else "",
            policy=policy,
        )


def parse_run(body: bytes) -> RunRow:
    fields = parse_body(body)
    if PARAMS not in fields:
        raise RolloutError("row", f"{PARAMS}: Field required")
    _check_params(fields[PARAMS], PARAMS)
    if DEFAULTS in fields:
        return parse_run(write_any_json(fill_params(from_json(body))))  # keeps large integers
    return RunRow(body, fields)


def without_policy(row: RunRow) -> RunRow:
    """The row as everybody but us may see it: no key in what is sent on, echoed or written down."""
    if not any(name in row.fields for name in FIELDS):
        return row
    kept = {name: value for name, value in from_json(row.body).items() if name not in FIELDS}  # keeps large integers
    return RunRow(write_any_json(kept), {name: value for name, value in row.fields.items() if name not in FIELDS})


def parse_params(body: bytes) -> dict[str, Any]:
    params = parse_body(body)
    _check_params(params, "body")
    return params


def _check_params(params: Any, path: str) -> None:
    if not isinstance(params, dict):
        raise RolloutError("row", f"{path}: an object is needed, found {type(params).__name__}")
    given = params.get("input", [])
    if not isinstance(given, str) and not (isinstance(given, list) and all(isinstance(item, dict) for item in given)):
        raise RolloutError("row", f"{path}.input: a string or a list of items is needed")
    tools = params.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise RolloutError("row", f"{path}.tools: a list is needed, found {type(tools).__name__}")


def _own_id(fields: Mapping[str, Any]) -> str:
    given = fields.get("_ng_rollout_id")
    if isinstance(given, str) and re.fullmatch(r"[\w.:-]{1,200}", given):
        return given
    task, index = fields.get("_ng_task_index"), fields.get("_ng_rollout_index")
    return f"{task}-{index}" if isinstance(task, int) and isinstance(index, int) else ""


def _error_output(message: str) -> str:
    return write_json({"error": message}).decode()


def _taken(policy: PolicyEndpoint | None) -> tuple[tuple[bytes, bytes], ...]:
    return () if policy is None else ((HEADER_POLICY.encode(), b"used"),)


def _headers_of(rollout: RolloutClient) -> tuple[tuple[bytes, bytes], ...]:
    """What a reply's headers say of its rollout, of one that failed too."""
    headers = (_timing(rollout.spent), (_STEPS, write_steps(rollout.steps)), _SDK)
    return (*headers, (_TOOL_ERRORS, b"%d" % rollout.tool_errors)) if rollout.tool_errors else headers


def _timing(spent: Mapping[str, float]) -> tuple[bytes, bytes]:
    """`server-timing`: where the seconds of this rollout went, in milliseconds."""
    return b"server-timing", ", ".join(f"{hop};dur={seconds * 1000:.1f}" for hop, seconds in spent.items()).encode()


_SDK = (HEADER_SDK.encode(), __version__.encode())
_STEPS, _TOOL_ERRORS = HEADER_STEPS.encode(), HEADER_TOOL_ERRORS.encode()
