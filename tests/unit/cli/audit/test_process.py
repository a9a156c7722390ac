"""An audit of servers that are good, and of servers with the faults it is there to find."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gym.cli.audit import process
from gym.cli.audit.process import BLOCKED, audit
from gym.cli.audit.subject import AuditFinding
from gym.errors import UserError
from gym.server import ResourcesServer, VerifyRequest, tool
from gym.server.base import ServerApp
from gym.server.cases import Case
from gym.server.config import Settings
from gym.server.judge import Judge, JudgeConfig, Prompt
from gym.server.verdicts import labels_as_verdicts
from gym.wire import items


class Task(VerifyRequest):
    expected: str = "blue"


class Good(ResourcesServer[None]):
    async def verify(self, rollout: Task) -> float:
        return float(rollout.last_text.strip() == rollout.expected)


class Generous(ResourcesServer[None]):
    """Pays for silence, breaks on refusals."""

    async def verify(self, rollout: Task) -> float:
        if not rollout.response.output:
            return 1.0
        if items.is_message(rollout.response.output[0]):
            assert rollout.response.output[0]["content"] is not None
        return float(rollout.expected in rollout.last_text)


class Trusting(ResourcesServer[None]):
    """Believes that every row has its fields."""

    async def verify(self, rollout: VerifyRequest) -> float:
        return float(rollout.last_text.strip() == (rollout.model_extra or {})["expected"].strip())


class Tireless(ResourcesServer[None]):
    """Some texts cost it more than others may wait."""

    async def verify(self, rollout: Task) -> float:
        ends = time.thread_time() + 1.2 * BLOCKED
        while rollout.last_text.startswith("(((") and time.thread_time() < ends:
            pass
        return float(rollout.last_text.strip() == rollout.expected)


class Moody(ResourcesServer[None]):
    """Pays every other time."""

    turn = 0

    async def verify(self, rollout: Task) -> float:
        self.turn += rollout.last_text.strip() == rollout.expected
        return float(rollout.last_text.strip() == rollout.expected and self.turn % 2)


class Shy(ResourcesServer[None]):
    """A caller that comes while another is served gets nothing."""

    busy = 0

    async def verify(self, rollout: Task) -> float:
        self.busy += 1
        for _ in range(20):  # turns of the event loop, in which others may come
            await asyncio.sleep(0)
        alone, self.busy = self.busy == 1, self.busy - 1
        return float(rollout.last_text.strip() == rollout.expected and alone)


class Hoarder(ResourcesServer[None]):
    kept: list[bytes]

    async def start(self) -> None:
        self.kept = []

    async def verify(self, rollout: Task) -> float:
        self.kept.append(b"x" * 256_000)  # written, so resident; enough of it even where the machine is busy
        return float(rollout.last_text.strip() == rollout.expected)


class Floored(ResourcesServer[None]):
    reward_floor = 1.0
    reward_floor_reason = "everybody wins"

    async def verify(self, rollout: Task) -> float:
        return 1.0


class Lucky(ResourcesServer[None]):
    """Takes a word for an answer, whatever was asked."""

    async def verify(self, rollout: Task) -> float:
        return float(rollout.last_text.strip() == rollout.expected or rollout.last_text == "yes")


class Fickle(ResourcesServer[None]):
    """Rolls dice over wrong answers."""

    reward_floor = 1.0
    turn = 0

    async def verify(self, rollout: Task) -> float:
        self.turn += 1
        return float(rollout.last_text.strip() == rollout.expected or self.turn % 2)


class Declared(Lucky):
    constant_floor = 1.0
    constant_floor_reason = "yes is enough"


class Counting(ResourcesServer[dict[str, int]]):
    async def seed(self, row: Any) -> dict[str, int]:
        return {"count": 0}

    @tool
    async def add(self, state: dict[str, int]) -> str:
        """Adds one."""
        state["count"] += 1
        return "ok"

    async def verify(self, rollout: VerifyRequest, state: dict[str, int]) -> float:
        return float(state["count"] == 2)


class JudgedConfig(JudgeConfig):
    model_config = {"extra": "forbid", "frozen": True}


class Judged(ResourcesServer[None]):
    config: JudgedConfig

    def __init__(self, config: JudgedConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.judge = Judge(self, config)
        self.prompt = Prompt.parse("Is this blue? {answer}", ["answer"])

    async def verify(self, rollout: Task) -> float:
        reply = await self.judge.ask(self.prompt.fill({"answer": rollout.last_text}, untrusted=["answer"]))
        return float(labels_as_verdicts(("YES", "NO")).read(reply.text) == "YES")


# Two skies of three are blue.
ROWS = tuple(
    {"responses_create_params": {"input": "Which colour has this sky?"}, "expected": colour, "answer": colour}
    for colour in ("blue", "red", "blue")
)


def make_case(name: str = "right", answer: str = "blue", **more: Any) -> Case:
    request = {
        "responses_create_params": {"input": "Which colour has the sky?"},
        "expected": "blue",
        "response": {"output": [items.message(answer)] if answer else []},
    }
    fields = {"kind": "full_reward", "expected_reward": 1.0, "oracle": True, "request": request}
    return Case.model_validate({"name": name, **fields, **more})


@pytest.fixture(autouse=True)
def watch_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for a server that keeps every rollout to be found, and a third of what `quick` watches."""
    monkeypatch.setattr(process, "WATCHED_QUICKLY", 150)


async def findings_of(
    app: ServerApp, *cases: Case, only: tuple[str, ...] = (), **fields: Any
) -> dict[str, AuditFinding]:
    chosen = cases or (make_case(),)
    findings = await audit(app, "audited", fields, chosen, ROWS, quick=True, only=only)
    return {one.check: one for one in findings}


def failed(found: dict[str, AuditFinding]) -> set[str]:
    return {name for name, one in found.items() if not one.passed}


async def test_a_good_verifier_passes_everything() -> None:
    found = await findings_of(Good.app())
    assert not failed(found), found
    assert found["time"].figures["p99_ms"] >= found["time"].figures["p50_ms"] > 0


async def test_silence_that_pays_and_answers_that_break_the_verifier_are_found() -> None:
    found = await findings_of(Generous.app())
    assert failed(found) == {"empty", "odd items"}
    assert "silence" in found["empty"].detail
    assert "500 resources" in found["odd items"].detail


async def test_a_verifier_that_keeps_everybody_waiting_is_found() -> None:
    found = await findings_of(Tireless.app())
    assert failed(found) == {"hostile texts"}
    assert "kept the event loop busy" in found["hostile texts"].detail


async def test_a_quick_audit_of_a_slow_verifier_tries_a_few_answers_of_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = await findings_of(Generous.app())
    monkeypatch.setattr(process, "SLOW", -1.0)
    few = await findings_of(Generous.app())
    assert few.keys() == everything.keys()
    assert failed(few) == {"empty", "odd items"}
    assert [found["hostile texts"].figures["answers"] for found in (everything, few)] == [16, 2]
    assert few["no UTF-8"].figures["bodies"] == 2 * 4


async def test_a_verifier_that_breaks_over_a_bad_row_is_found() -> None:
    found = await findings_of(Trusting.app())
    assert failed(found) == {"bad rows"}
    assert "no field of its own: 500 resources" in found["bad rows"].detail


async def test_an_oracle_that_is_not_paid_is_found() -> None:
    found = await findings_of(Good.app(), make_case(answer="green"))
    assert failed(found) == {"oracle answers"}


async def test_rewards_that_depend_on_what_was_before_or_on_company_are_found() -> None:
    assert "same twice" in failed(await findings_of(Moody.app()))
    assert failed(await findings_of(Shy.app())) == {"concurrent"}


async def test_a_server_that_keeps_every_rollout_is_found() -> None:
    found = await findings_of(Hoarder.app())
    assert failed(found) == {"memory"}
    assert found["memory"].figures["bytes_per_verify"] > 10_000


async def test_a_declared_floor_is_allowed_and_shown() -> None:
    found = await findings_of(Floored.app())
    assert not failed(found)
    assert "score nothing, or 1 (everybody wins)" in found["empty"].detail


async def test_a_row_may_have_a_floor_of_its_own() -> None:
    silent = make_case("a row that silence solves", answer="blue", floor=1.0, floor_reason="silence is right here")
    found = await findings_of(Generous.app(), silent)
    assert "empty" not in failed(found)
    assert "or 1 (silence is right here)" in found["empty"].detail


async def test_steps_are_made_for_the_oracle_and_not_for_worthless_answers() -> None:
    steps = [{"tool": "add", "output": "ok"}, {"tool": "add"}]
    found = await findings_of(Counting.app(), make_case(steps=steps))
    assert not failed(found), found


async def test_a_judged_server_is_audited_with_what_an_honest_judge_says() -> None:
    cases = (
        make_case(judge=["It is. YES"]),
        make_case("wrong", "green", kind="zero_reward", expected_reward=0.0, oracle=False, judge=["NO"]),
    )
    reference = {"type": "responses_api_models", "name": "judge"}
    found = await findings_of(Judged.app(), *cases, judge_model_server=reference)
    assert not failed(found), found


def test_the_process_runs_on_the_sdk_alone(tmp_path: Path) -> None:
    extras = {"typer", "rich", "docker", "jinja2", "httpx"}
    probe = f"import sys, gym.cli.audit.process, gym.server.cases; print(sorted({extras} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("oracle", "message"), [(False, "no case is marked as an oracle's"), (None, "cannot be read")])
def test_a_server_without_oracle_cases_gets_an_error_that_says_to_mark_some(
    tmp_path: Path, oracle: bool | None, message: str
) -> None:
    (tmp_path / "app.py").write_text(
        "from gym.server import ResourcesServer\nclass Mine(ResourcesServer[None]): ...\napp = Mine.app()\n"
    )
    (tmp_path / "data").mkdir()
    if oracle is not None:
        case = make_case().model_copy(update={"oracle": oracle})
        (tmp_path / "data" / "verifier_cases.jsonl").write_text(case.model_dump_json() + "\n")
    argv = [sys.executable, "-m", "gym.cli.audit.process", str(tmp_path), str(tmp_path / "out")]
    spec = json.dumps({"name": "mine", "fields": {}, "quick": True})
    done = subprocess.run(argv, input=spec, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


async def test_what_always_the_same_answer_earns_is_found_where_it_is_not_declared() -> None:
    found = await findings_of(Lucky.app(), only=("constant answers",))
    assert not found["constant answers"].passed
    assert found["constant answers"].detail == "always 'yes' earns 1 a row, 0 at most is right or declared"
    assert list(found) == ["oracle answers", "constant answers"]
    declared = (await findings_of(Declared.app(), only=("constant answers",)))["constant answers"]
    assert declared.passed
    assert declared.detail == "'yes' 1, 'blue' 0.67, right in 0.67 of the rows (yes is enough)"


async def test_what_is_right_in_some_rows_may_earn_as_much_and_is_shown() -> None:
    found = await findings_of(Good.app(), only=("constant answers",))
    assert found["constant answers"].passed
    assert found["constant answers"].detail == "'blue' 0.67, right in 0.67 of the rows"
    assert found["constant answers"].figures["best"] == pytest.approx(2 / 3)


async def test_dice_over_wrong_answers_are_found_although_a_floor_allows_them() -> None:
    assert failed(await findings_of(Fickle.app(), only=("same twice", "worthless answers"))) == {"same twice"}


async def test_a_check_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="no check is called 'speed'") as raised:
        await findings_of(Good.app(), only=("speed",))
    assert "constant answers, all options" in str(raised.value)
