"""Methods of an author that would fail every rollout are refused at the start; what may work is not."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gym.errors import UserError
from gym.server import ResourcesServer, Row, VerifyRequest
from gym.server.gymnasium import GymnasiumServer
from gym.server.testing import Caller, running

ROLLOUT = {"responses_create_params": {"input": "x"}, "response": {"output": []}}
PLACE = r"\(test_author_shape\.py:\d+\)"


async def pays(self: Any, rollout: VerifyRequest) -> float:
    return 1.0


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def adds(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(self: Any, rollout: VerifyRequest) -> float:
        return float(await function(self, rollout, 1.0))

    return wrapper


def server(**methods: Any) -> type[ResourcesServer[Any]]:
    return type("Mine", (ResourcesServer,), {"verify": pays, **methods})


def plain_verify(self: Any, rollout: VerifyRequest) -> float:
    return 1.0


def unhinted_verify(self, rollout):  # type: ignore[no-untyped-def]
    return float(rollout.last_text == "x") if rollout else 0.0


async def yields(self: Any, rollout: VerifyRequest) -> Any:
    yield 1.0


async def alone(self: Any) -> float:
    return 1.0


async def with_row(self: Any, rollout: VerifyRequest, row: Row) -> float:
    return 1.0


def plain_seed(self: Any, row: Row) -> dict[str, int] | None:
    return {}


def plain_start(self):  # type: ignore[no-untyped-def]
    self.table = {}


def init_alone(self: Any, config: Any, settings: Any) -> None: ...


def bare_init(self: Any) -> None: ...


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (
            {"verify": plain_verify},
            rf"^Mine\.verify {PLACE} must be `async def`\nWrite `async def verify\(",
        ),
        ({"verify": yields}, r"must be `async def`, without `yield`"),
        (
            {"verify": alone},
            r"takes \(self, rollout\) or \(self, rollout, state\), and this one takes \(self\)$",
        ),
        ({"verify": with_row}, rf"{PLACE}: `verify` takes .*, and this one takes \(self, rollout, row\)$"),
        ({"seed": plain_seed}, rf"^Mine\.seed {PLACE} must be `async def`"),
        ({"seed": alone}, r"`seed` takes \(self, row\) or \(self, row, state\)"),
        ({"start": plain_start}, r"must be `async def`"),
        ({"start": with_row}, r"`start` takes \(self\), and this one takes \(self, rollout, row\)"),
        ({"__init__": init_alone}, rf"^Mine\.__init__ {PLACE} does not call `super\(\)"),
        ({"__init__": bare_init}, rf"^Mine\.__init__ {PLACE}: `__init__` takes \(self, config, settings\), and"),
    ],
)
async def test_a_method_that_would_fail_every_rollout_ends_the_start(methods: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        await server(**methods).app({}, name="mine").start()


def passes_on(self: Any, rollout: VerifyRequest) -> Awaitable[float]:
    return pays(self, rollout)


def passes_on_unhinted(self, rollout):  # type: ignore[no-untyped-def]
    return pays(self, rollout)


async def with_part(self: Any, rollout: VerifyRequest, part: float) -> float:
    return part


async def with_default(self: Any, rollout: VerifyRequest, *more: Any, strict: bool = False) -> float:
    return 1.0


async def of_no_self(rollout: VerifyRequest) -> float:
    return 1.0


@pytest.mark.parametrize(
    "verify",
    [
        wrapped(pays),
        adds(with_part),
        passes_on,
        passes_on_unhinted,
        with_default,
        staticmethod(of_no_self),
    ],
)
async def test_what_can_be_awaited_in_any_way_is_taken(verify: Any) -> None:
    async with running(server(verify=verify).app({}, name="mine")) as url, Caller(url) as caller:
        assert (await caller.post("/verify", ROLLOUT)).body["reward"] == 1.0


async def test_a_plain_function_that_may_have_returned_something_to_await_says_so_when_it_did_not() -> None:
    async with running(server(verify=unhinted_verify).app({}, name="mine")) as url, Caller(url) as caller:
        error = (await caller.post("/verify", ROLLOUT)).body["error"]
    assert (error["kind"], error["retryable"]) == ("resources", False)
    assert error["message"].startswith("Mine.unhinted_verify (test_author_shape.py:")
    assert error["message"].endswith(") must be `async def`")


async def test_an_inherited_method_is_named_by_its_own_line() -> None:
    class Child(server(verify=plain_verify)):  # type: ignore[misc]
        pass

    with pytest.raises(UserError, match=rf"^Child\.verify {PLACE} must be"):
        await Child.app({}, name="child").start()


async def test_a_game_with_a_plain_step_is_refused() -> None:
    def step(self: Any, action: Any, state: Any) -> None: ...

    async def reset(self: Any, row: Row) -> Any: ...

    kind: Any = type("Game", (GymnasiumServer,), {"reset": reset, "step": step})
    with pytest.raises(UserError, match=r"^Game\.step .* must be `async def`"):
        await kind.app({}, name="game").start()
