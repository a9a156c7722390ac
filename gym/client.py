"""A running stack as a Python object: ask an agent, run a row, collect many, or get an `openai` client for a model.

`AsyncStack` is for programs with an event loop, `Stack` the same for those without.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import httpx
import yaml

from gym.collect import AttemptOptions, Rollout, collect
from gym.errors import InfraError, UserError
from gym.labels import SERVER_PREFIX
from gym.wire import items
from gym.wire.discovery import Discovery, InstanceView
from gym.wire.failures import error_from_reply
from gym.wire.rows import asks_for_tools, fill_tools
from gym.wire.server_types import AGENTS, MODELS, RESOURCES

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

T = TypeVar("T")
Json = dict[str, Any]
Rows = Iterable[Any] | AsyncIterable[Any]

NO_KEY: Final = "not-needed"  # the openai client insists on one; a stack without a token wants none
CONNECT_SECONDS: Final = 10.0


class AsyncStack:
    """`async with AsyncStack.connect(url) as stack`, or `aclose` it."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 3600.0) -> None:
        """`timeout`: seconds for one answer; a rollout may take long."""
        self.url = url.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=httpx.Timeout(timeout, connect=CONNECT_SECONDS),
            headers={"authorization": f"Bearer {token}"} if token else {},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # sessions are the caller's, never mixed up
            trust_env=False,
        )

    @classmethod
    def connect(cls, url: str, *, token: str = "", timeout: float = 3600.0) -> Self:
        """Nothing is sent yet: the first question finds out whether the stack answers."""
        return cls(url, token=token, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def agents(self) -> list[str]:
        """The names of its agents, sorted."""
        return sorted(await self._named(AGENTS))

    async def models(self) -> list[str]:
        return sorted(await self._named(MODELS))

    async def environments(self) -> list[str]:
        """The names of its resources servers, sorted."""
        return sorted(await self._named(RESOURCES))

    async def ask(self, agent: str, question: str | list[Json], **params: Any) -> Json:
        """One conversation without a verdict: the Responses object, tool calls and their outputs among its `output`.

        The tools of the agent's environment are offered unless `tools` says otherwise; other `params` go to the model.
        """
        if "tools" not in params and (found := await self.tools(agent)):
            params["tools"] = found
        return await self._post(agent, "/v1/responses", {**params, "input": question}, kind=AGENTS)

    async def run(self, row: Mapping[str, Any], *, agent: str = "") -> Json:
        """One verified rollout: `reward`, `response` and what the row had. `agent` where the row names none."""
        name = str((row.get("agent_ref") or {}).get("name") or agent)
        if not name:
            raise UserError("the row names no agent", "give it an agent_ref, or say run(row, agent=...)")
        tools = await self.tools(name) if asks_for_tools(row) else []
        return await self._post(name, "/run", fill_tools(row, lambda: tools), kind=AGENTS)

    async def rollouts(
        self, rows: Rows, *, agent: str = "", repeats: int = 1, options: AttemptOptions | None = None
    ) -> AsyncGenerator[Rollout, None]:
        """Verified rollouts as they finish, retried and paced as `gym rollouts` does it; nothing touches the disk."""
        found = collect(self.url, rows, agent=agent, repeats=repeats, token=self._token, options=options)
        async with aclosing(found):
            async for rollout in found:
                yield rollout

    async def tools(self, agent: str) -> list[Json]:
        """What the agent's environment lets a model call; none where it has no tools, or no environment."""
        environment = (await self._settings(agent, AGENTS)).get("resources_server") or {}
        if not environment.get("name"):
            return []
        reply = await self._get(f"{SERVER_PREFIX}{environment['name']}/tools", server=environment["name"])
        found = reply.json() if reply.status_code == httpx.codes.OK else []
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    async def get(self, server: str, path: str) -> httpx.Response:
        """Any route of any server; the caller looks at the status."""
        return await self._get(f"{SERVER_PREFIX}{server}{path}", server=server)

    async def post(
        self, server: str, path: str, body: Any = None, *, cookies: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Any route of any server; `cookies` of an earlier reply keep to its session."""
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}
        path = f"{SERVER_PREFIX}{server}{path}"
        return await self._send("POST", path, server=server, json={} if body is None else body, headers=headers)

    def openai(self, model: str = "policy_model", **given: Any) -> AsyncOpenAI:
        """The official client, set up for a model of the stack."""
        from openai import AsyncOpenAI  # an optional package, and 300 ms of imports

        return AsyncOpenAI(**_openai_options(self.url, self._token, model), **given)

    async def _named(self, kind: str) -> dict[str, InstanceView]:
        reply = await self._get("/discovery", server="")
        if reply.status_code != httpx.codes.OK:
            raise _refused(self.url, reply)
        return {
            name: one
            for name, one in Discovery.model_validate_json(reply.content).instances.items()
            if one.type == kind
        }

    async def _settings(self, name: str, kind: str) -> Json:
        """An instance's settings in the stack's configuration."""
        reply = await self._get("/global_config_dict_yaml", server="")
        if reply.status_code != httpx.codes.OK:
            raise _refused(self.url, reply)
        document = yaml.safe_load(reply.json())
        known = {key: value[kind] for key, value in document.items() if isinstance(value, dict) and kind in value}
        if name not in known:
            raise _unknown(self.url, name, kind, known)
        settings: Json = next(iter(known[name].values()))
        return settings

    async def _post(self, server: str, path: str, body: Json, *, kind: str) -> Json:
        reply = await self.post(server, path, body)
        if reply.status_code >= httpx.codes.BAD_REQUEST:
            if reply.status_code == httpx.codes.NOT_FOUND and server not in (known := await self._named(kind)):
                raise _unknown(self.url, server, kind, known)
            raise error_from_reply(reply.status_code, reply.content, server=server, kind="agent")
        answer: Json = reply.json()
        return answer

    async def _get(self, path: str, *, server: str) -> httpx.Response:
        return await self._send("GET", path, server=server)

    async def _send(self, method: str, path: str, *, server: str, **given: Any) -> httpx.Response:
        try:
            return await self._http.request(method, path, **given)
        except httpx.TimeoutException:
            what = f"{server or 'the stack'} at {self.url} gave no answer within {self._timeout:g} s"
            raise InfraError(what, "connect(url, timeout=...) waits longer; gym logs says what it does") from None
        except httpx.HTTPError as error:
            raise InfraError(
                f"{self.url} cannot be reached: {error}", "start it: gym up NAMES; gym ps shows its URL"
            ) from None


class Stack:
    """`with Stack.connect(url) as stack`, or `close` it: `AsyncStack` for programs without an event loop."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 3600.0) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncStack(url, token=token, timeout=timeout)

    @classmethod
    def connect(cls, url: str, *, token: str = "", timeout: float = 3600.0) -> Self:
        return cls(url, token=token, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    @property
    def url(self) -> str:
        return self._stack.url

    def agents(self) -> list[str]:
        return self._runner.run(self._stack.agents())

    def models(self) -> list[str]:
        return self._runner.run(self._stack.models())

    def environments(self) -> list[str]:
        return self._runner.run(self._stack.environments())

    def tools(self, agent: str) -> list[Json]:
        return self._runner.run(self._stack.tools(agent))

    def ask(self, agent: str, question: str | list[Json], **params: Any) -> Json:
        return self._runner.run(self._stack.ask(agent, question, **params))

    def run(self, row: Mapping[str, Any], *, agent: str = "") -> Json:
        return self._runner.run(self._stack.run(row, agent=agent))

    def get(self, server: str, path: str) -> httpx.Response:
        return self._runner.run(self._stack.get(server, path))

    def post(
        self, server: str, path: str, body: Any = None, *, cookies: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self._runner.run(self._stack.post(server, path, body, cookies=cookies))

    def rollouts(
        self, rows: Rows, *, agent: str = "", repeats: int = 1, options: AttemptOptions | None = None
    ) -> Iterator[Rollout]:
        """The event loop runs only while the next rollout is awaited; the others stand still in between."""
        found = self._stack.rollouts(rows, agent=agent, repeats=repeats, options=options)
        try:
            while (rollout := self._runner.run(_next(found))) is not None:
                yield rollout
        finally:
            self._runner.run(found.aclose())

    def openai(self, model: str = "policy_model", **given: Any) -> OpenAI:
        from openai import OpenAI  # an optional package, and 300 ms of imports

        return OpenAI(**_openai_options(self.url, self._stack._token, model), **given)


def conversation(response: Mapping[str, Any]) -> Iterator[str]:
    """A reply's output for people, a line or paragraph an item: thoughts, calls, what tools answered, texts."""
    for item in response.get("output") or ():
        match item.get("type"):
            case "function_call":
                yield f"-> {item.get('name')}({item.get('arguments')})"
            case "function_call_output":
                yield f"<- {item.get('output')}"
            case "reasoning":
                texts = [part.get("text", "") for part in item.get("summary") or () if isinstance(part, dict)]
                yield from (f"({text})" for text in texts if text)
            case "message":
                yield f"{item.get('role', 'assistant')}: {items.item_text(item)}"


async def _next(found: AsyncGenerator[T, None]) -> T | None:
    return await anext(found, None)


def _openai_options(url: str, token: str, model: str) -> Json:
    return {"base_url": f"{url}{SERVER_PREFIX}{model}/v1", "api_key": token or NO_KEY}


def _refused(url: str, reply: httpx.Response) -> InfraError:
    hint = "connect(url, token=...): the stack was started with a token" if reply.status_code in (401, 403) else ""
    return InfraError(f"{url} answered {reply.status_code}: {reply.text[:200].strip()}", hint)


def _unknown(url: str, name: str, kind: str, known: Iterable[str]) -> UserError:
    what = {AGENTS: "agent", RESOURCES: "environment", MODELS: "model"}[kind]
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3) or names
    return UserError(f"the stack at {url} has no {what} {name!r}", f"it has {', '.join(near)}" if near else "")
