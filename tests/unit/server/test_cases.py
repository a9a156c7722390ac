"""Verifier cases: what a file may say, and what running it finds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.errors import UserError
from gym.server import ResourcesServer, VerifyRequest, case_log, cases, testing, tool
from gym.server.base import ServerApp
from gym.server.case_log import CaseOutcome
from gym.server.cases import Case, load_cases, missing_kinds, run_cases
from gym.server.config import Reference
from gym.server.resources import ResourcesConfig
from gym.wire import items


class Config(ResourcesConfig):
    factor: float = 1.0
    user_model: Reference | None = None


class Task(VerifyRequest):
    expected: int


class Adder(ResourcesServer[dict[str, int]]):
    config: Config
    calls = 0

    async def seed(self, row: Any) -> dict[str, int]:
        return {"sum": 0}

    @tool
    async def add(self, number: int, state: dict[str, int]) -> dict[str, int]:
        """Adds."""
        state["sum"] += number
        return dict(state)

    async def verify(self, rollout: Task, state: dict[str, int]) -> dict[str, Any]:
        type(self).calls += 1
        if self.config.user_model is not None:
            async with self.outgoing(model_server=self.config.user_model.name) as model:
                state["sum"] = int(items.output_text((await model.ask_model({"input": "?"}))["output"]))
        if rollout.last_text == "moody":
            return {"reward": float(self.calls % 2), "sum": 0}
        right = state["sum"] == rollout.expected
        return {"reward": self.config.factor * right, "sum": state["sum"], "reason": "" if right else "another sum"}


def make_case(name: str = "x", **fields: Any) -> Case:
    request = {
        "responses_create_params": {"input": "?"},
        "expected": 3,
        "response": {"output": [items.message("done")]},
        **fields.pop("row", {}),
    }
    given = {"name": name, "kind": "partial", "request": request, **fields}
    if "expected_error" not in given:
        given.setdefault("expected_reward", 1.0)
    return Case.model_validate(given)


def step(number: int, **more: Any) -> dict[str, Any]:
    return {"tool": "add", "arguments": {"number": number}, **more}


async def run(*cases: Case, app: ServerApp | None = None, **fields: Any) -> list[CaseOutcome]:
    return await run_cases(app or Adder.app(), "adder", fields, cases)


async def test_each_case_has_a_session_of_its_own_with_its_steps() -> None:
    reply = await run(
        make_case("a", steps=[step(1, output={"sum": 1}), step(2, output={"sum": 3})], expected_fields={"sum": 3}),
        make_case("b", expected_reward=0.0),
        make_case("c", steps=[step(3)]),
    )
    assert [(one.name, one.passed, one.got) for one in reply] == [
        ("a", True, "reward 1"),
        ("b", True, "reward 0"),
        ("c", True, "reward 1"),
    ]
    assert reply[1].reason == "another sum"


async def test_a_reward_an_error_a_field_and_a_step_that_differ_are_each_said() -> None:
    reply = await run(
        make_case("reward", expected_reward=1.0),
        make_case("error", row={"expected": "three"}),
        make_case("no error", expected_error={"status": 422, "kind": "row"}, steps=[step(3)]),
        make_case("field", steps=[step(3)], expected_fields={"sum": 4, "more": 1}),
        make_case("step", steps=[step(3, output={"sum": 4})]),
        make_case("other error", row={"expected": "three"}, expected_error={"status": 422, "kind": "judge"}),
    )
    assert not any(one.passed for one in reply)
    assert [one.got for one in reply] == [
        "reward 0",
        "422 row",
        "reward 1",
        "reward 1",
        'add answered {"sum":3}, not {"sum":4}',
        "422 row",
    ]
    assert "expected: Input should be a valid integer" in reply[1].reason
    assert reply[3].reason == "sum is 3, not 4; more is null, not 1"
    assert (reply[2].expected, reply[0].expected) == ("422 row", "reward 1")


async def test_a_bad_row_may_fail_at_seed_or_at_verify() -> None:
    (body,) = await run(make_case(row={"expected": None}, expected_error={"status": 422, "kind": "row"}))
    assert body.passed


async def test_a_case_may_configure_the_server() -> None:
    reply = await run(
        make_case("default", steps=[step(3)], expected_reward=2.0),
        make_case("own", steps=[step(3)], config={"factor": 0.5}, expected_reward=0.5),
        make_case("refused", config={"no_such_field": 1}),
        factor=2.0,
    )
    assert [one.passed for one in reply] == [True, True, False]
    assert "no_such_field" in reply[2].got


async def test_a_model_that_the_configuration_names_says_what_the_case_scripts() -> None:
    reference = {"type": "responses_api_models", "name": "someone"}
    reply = await run(
        make_case("a", judge=["3"]), make_case("b", judge=["4"], expected_reward=0.0), user_model=reference
    )
    assert [one.passed for one in reply] == [True, True]


async def test_an_answer_that_is_not_worth_the_same_twice_differs() -> None:
    moody = {"response": {"output": [items.message("moody")]}}
    (body,) = await run(make_case(kind="determinism", row=moody))
    assert not body.passed
    assert ", then " in body.got


async def test_a_verify_that_does_not_answer_is_said_to_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ResourcesServer[None]):
        async def verify(self, rollout: VerifyRequest) -> float:
            await asyncio.Event().wait()
            return 1.0

    for module in (cases, testing):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    (body,) = await run_cases(Silent.app(), "silent", {}, [make_case()])
    assert (body.passed, body.got) == (False, "no answer within 0.05 s")


async def test_without_a_response_the_last_step_has_the_reward() -> None:
    class Stepper(ResourcesServer[None]):
        @tool
        async def act(self, action: str) -> dict[str, Any]:
            """One turn."""
            return {"reward": float(action == "right"), "terminated": True}

    case = make_case(steps=[{"tool": "act", "arguments": {"action": "right"}}])
    without = case.model_copy(update={"request": {"responses_create_params": {"input": "?"}}})
    (body,) = await run(without, app=Stepper.app())
    assert body.passed


GOOD = make_case(kind="full_reward").model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expected_reward": None}, "expected_reward or expected_error"),
        ({"expected_error": {"status": 422}}, "not both"),
        ({"expected_reward": 0.0}, "above 0"),
        ({"kind": "zero_reward"}, "of 0, or below"),
        ({"kind": "partial", "oracle": True}, "only a full_reward case"),
        ({"floor": 0.5}, "a floor belongs to an oracle's case"),
        ({"floor": 0.5, "oracle": True}, "needs a floor_reason"),
        ({"kind": "hopeful"}, "kind: "),
        ({"expceted": 1}, "expceted: Extra inputs"),
        ({"steps": [{"name": "add"}]}, "steps.0.tool: Field required"),
    ],
)
def test_a_line_that_says_something_else_is_an_error_with_its_number(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps({**GOOD, 'name': 'y', **change})}\n")
    with pytest.raises(UserError, match=rf"cases\.jsonl:3: .*{message}"):
        load_cases(path)


def test_a_name_stands_for_one_case(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n" * 2)
    with pytest.raises(UserError, match="a second case called 'x'"):
        load_cases(path)


def test_what_a_file_lacks_is_counted() -> None:
    cases = [make_case(str(number), kind="full_reward") for number in range(2)]
    assert list(missing_kinds(cases)) == [
        "0 zero_reward cases, 2 at least",
        "0 malformed cases, 1 at least",
        "0 adversarial cases, 2 at least",
    ]
    assert "0 zero_reward cases, 2 at least" not in list(missing_kinds(cases, constant=True))


def written(folder: Path, *lines: object) -> Path:
    rows = [{"responses_create_params": {"input": "1+2"}, "expected": 3, "agent_ref": {"name": "an_agent"}}]
    (folder / "example.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (folder / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder / "cases.jsonl"


ANSWER = {"response": {"output": [items.message("3")]}}


def test_a_case_may_name_the_row_that_it_answers(tmp_path: Path) -> None:
    case = {"name": "a", "kind": "full_reward", "row": 0, "request": ANSWER, "expected_reward": 1.0}
    other = {**case, "name": "b", "request": {**ANSWER, "expected": 4}}
    first, second = load_cases(written(tmp_path, case, other))
    assert first.request == {"responses_create_params": {"input": "1+2"}, "expected": 3, **ANSWER}
    assert second.request["expected"] == 4
    bare = {key: value for key, value in case.items() if key != "request"}
    assert load_cases(written(tmp_path, bare))[0].request["expected"] == 3


@pytest.mark.parametrize("number", [1, -1, "0", True, None])
def test_a_row_that_is_not_there_is_named(tmp_path: Path, number: object) -> None:
    case = {"name": "a", "kind": "full_reward", "row": number, "request": ANSWER, "expected_reward": 1.0}
    with pytest.raises(UserError, match=r"cases\.jsonl:1: row: .*example\.jsonl has rows 0 to 0"):
        load_cases(written(tmp_path, case))
    path = written(tmp_path, case)
    (tmp_path / "example.jsonl").unlink()
    with pytest.raises(UserError, match="has no row"):
        load_cases(path)


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text("{\n")
    with pytest.raises(UserError, match=r"cases\.jsonl:1: not JSON"):
        load_cases(path)


async def test_a_case_that_hangs_is_the_last_one_and_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Halting(ResourcesServer[None]):
        async def verify(self, rollout: VerifyRequest) -> float:
            if rollout.last_text == "halt":
                await asyncio.Event().wait()
            return 1.0

    halting = {"row": {"response": {"output": [items.message("halt")]}}}
    some = [make_case("first"), make_case("halts", **halting), make_case("later", config={"x": 1})]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n\n".join(one.model_dump_json(exclude_none=True) for one in some))
    monkeypatch.setattr(case_log, "CASE_SECONDS", 3.0)
    found = await run_cases(Halting.app(), "halting", {}, load_cases(path))
    assert [(one.got, one.reason) for one in found] == [
        ("reward 1", ""),
        ("no answer within 3 s", "data/verifier_cases.jsonl:3"),
        ("not run", "'halts' got no answer"),
    ]


def test_a_case_that_may_wait_for_a_sandbox_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(labels.ENV_SANDBOX_URL, raising=False)
    assert case_log.case_seconds({"sandbox": {}}) > case_log.case_seconds({"limit": 1}) == case_log.CASE_SECONDS
