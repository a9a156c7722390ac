"""What a server says of rows: by the models of its seed and verify, and by data of its own."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from gym.errors import UserError
from gym.server import Problem, ResourcesServer, Row, VerifyRequest, tool
from gym.server.check_rows import RowChecker
from gym.server.gymnasium import GymnasiumServer
from gym.wire.failures import RolloutError

PARAMS = '"responses_create_params":{"input":"x"}'


class Call(BaseModel):
    name: str


class Start(Row):
    level: int


class Task(VerifyRequest):
    answer: str
    calls: list[Call] = []


class Judge(ResourcesServer[None]):
    async def seed(self, row: Start) -> None: ...

    async def verify(self, rollout: Task) -> float:
        return 1.0


class Library(ResourcesServer[None]):
    started = 0

    async def start(self) -> None:
        self.started += 1

    async def stop(self) -> None:
        self.started -= 1

    async def verify(self, rollout: Task) -> float:
        return 1.0

    async def check_row(self, row: Task) -> list[Problem]:
        assert self.started == 1
        if row.answer == "raises":
            raise RolloutError("row", "answer: it raises")
        return [] if row.answer == "known" else [Problem("is in no book", key="answer", value=row.answer)]


class Game(GymnasiumServer[int]):
    async def reset(self, row: Start) -> tuple[int, None]:
        return 0, None


async def check(server: type[ResourcesServer[Any]], rest: str) -> list[Problem]:
    checker = RowChecker.of(server.app(), "it", {})
    await checker.start()
    try:
        return await checker.check(f"{{{PARAMS}{rest}}}".encode())
    finally:
        await checker.stop()


async def test_a_row_with_all_that_is_read_of_it_is_good() -> None:
    assert await check(Judge, ',"answer":"x","level":1,"more":[1]') == []


async def test_what_verify_needs_is_missing_with_what_is_expected_and_what_is_there() -> None:
    (problem,) = await check(Judge, ',"level":1')
    assert (problem.key, problem.what, problem.hint) == ("answer", "is missing", "expected: text")
    assert problem.value == '{"level":1}'


async def test_what_seed_needs_is_a_finding_too() -> None:
    (problem,) = await check(Judge, ',"answer":"x","level":"high"')
    assert (problem.key, problem.value) == ("level", '"high"')
    (problem,) = await check(Game, "")
    assert (problem.key, problem.what) == ("level", "is missing")


async def test_the_path_leads_into_lists() -> None:
    (problem,) = await check(Judge, ',"answer":"x","level":1,"calls":[{"name":"a"},{"name":3}]')
    assert (problem.key, problem.value) == ("calls[1].name", "3")


async def test_a_response_is_not_asked_of_a_row_and_one_that_is_there_does_no_harm() -> None:
    assert await check(Judge, ',"answer":"x","level":1,"response":{"output":[{"type":"message"}]}') == []
    assert await check(Judge, ',"answer":"x","level":1,"response":3') == []


async def test_null_where_there_is_a_default_is_as_good_as_nothing() -> None:
    assert await check(Judge, ',"answer":"x","level":1,"calls":null') == []


@pytest.mark.parametrize(
    ("answer", "expected"), [("known", []), ("raises", ["answer: it raises"]), ("x", ["is in no book"])]
)
async def test_a_server_with_data_of_its_own_is_started_and_asked(answer: str, expected: list[str]) -> None:
    assert [one.what for one in await check(Library, f',"answer":"{answer}"')] == expected


async def test_its_data_is_not_asked_about_a_row_that_it_could_not_read() -> None:
    assert [one.what for one in await check(Library, "")] == ["is missing"]


def test_what_is_not_a_server_of_the_sdk_is_refused() -> None:
    with pytest.raises(UserError, match="not a server of this SDK"):
        RowChecker.of(object(), "it", {})


class Tooled(Judge):
    @tool
    async def count_letter(self, word: str) -> int:
        """Counts."""
        return len(word)


class Open(Tooled):
    def extend(self, app: FastAPI) -> None: ...


def offers(tools: str) -> str:
    return f',"responses_create_params":{{"input":"x","tools":{tools}}},"answer":"x","level":1'


async def test_a_row_may_ask_for_the_server_s_own_tools() -> None:
    for server in (Tooled, Judge):
        assert await check(server, offers('"auto"')) == []
    (problem,) = await check(Tooled, offers('"atuo"'))
    assert problem.key == "responses_create_params.tools"


async def test_a_tool_that_the_server_lacks_is_named_with_the_one_that_is_near() -> None:
    tools = (
        """[{"type":"function","name":"count_letter"},{"name":"count_leter"},{"type":"web_search"},{"name":"other"}]"""
    )
    near, other = await check(Tooled, offers(tools))
    assert (near.key, near.what) == ("responses_create_params.tools[1].name", "is not a tool of it")
    assert (near.hint, near.value) == ("did you mean count_letter?", "count_leter")
    assert other.hint == "it has: count_letter"
    for server in (Judge, Open):  # one that has no tools, and one with routes that no list names
        assert await check(server, offers(tools)) == []
