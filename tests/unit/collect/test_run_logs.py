"""Trackers are fed beside a collection: what they get, what a resume goes on with, and what one that fails costs."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.events import AgentProgress, Event, Notice, Progress, Summary
from gym.collect.log_to import run_logs
from gym.collect.log_to.run_logs import RunLogs, check_loggers, progress_values, read_samples
from gym.collect.log_to.trackers import NAMES, Known, RunFacts, SampleRollout
from gym.errors import UserError


class Notebook:
    """A tracker in memory. `broken` is what it fails at."""

    made: list[Notebook] = []  # noqa: RUF012

    def __init__(self, facts: RunFacts, broken: str = "") -> None:
        if broken == "open":
            raise RuntimeError("no such\nproject")
        self.facts, self.broken, self.key = facts, broken, facts.key or "new"
        self.logged: list[tuple[int, Mapping[str, float]]] = []
        self.samples: Sequence[SampleRollout] = ()
        self.closed: bool | None = None
        Notebook.made.append(self)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self.broken == "log":
            raise OSError("no network")
        self.logged.append((step, values))

    def log_samples(self, step: int, samples: Sequence[SampleRollout]) -> None:
        self.samples = samples

    def close(self, *, failed: bool) -> None:
        self.closed = failed


@pytest.fixture(autouse=True)
def trackers(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(NAMES)
    for broken in ("", "open", "log"):
        module: Any = types.ModuleType(f"notebook_{broken}")
        module.open_tracker = lambda facts, broken=broken: Notebook(facts, broken)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        known[f"notebook{broken}"] = Known(module.__name__, "orjson", "cli")
    monkeypatch.setattr(run_logs, "NAMES", known)
    Notebook.made = []
    return


def line(index: int, reward: float) -> bytes:
    fields = {
        "responses_create_params": {"input": [{"role": "user", "content": f"question {index}"}]},
        "response": {"output": [{"type": "message", "role": "assistant", "content": f"answer {index}"}]},
        "reward": reward,
        "_ng_task_index": index,
        "_ng_rollout_index": 0,
        "_gym": {"agent": "a"},
    }
    return orjson.dumps(fields) + b"\n"


def collect(output: Path, *names: str, resumed: int = 0, exit_code: int = 0) -> list[Event]:
    seen: list[Event] = []
    logs = RunLogs(names, output, {"repeats": 2}, seen.append)
    progress = Progress(done=3, failed=1, resumed=resumed, mean_reward=0.5, failures={"judge": 1})
    logs.on_event(progress)
    metrics = output.with_name("metrics.json")
    metrics.write_text('[{"agent_ref": {"name": "a"}, "agent_metrics": {"pass@1": 50.0, "note": "x"}}]')
    output.write_bytes(line(0, 1.0) + b"torn\n" + line(1, 0.0))
    logs.close(Summary(exit_code, progress, output, metrics_file=metrics))
    return seen


def test_a_tracker_gets_metrics_samples_and_the_end(tmp_path: Path) -> None:
    collect(tmp_path / "out.jsonl", "notebook")
    [made] = Notebook.made
    assert made.facts == RunFacts("out", tmp_path, "", {"repeats": 2})
    assert made.logged[0] == (4, progress_values(Progress(done=3, failed=1, mean_reward=0.5, failures={"judge": 1})))
    assert made.logged[-1] == (4, {"final/a/pass@1": 50.0})
    assert [(one.asked, one.answered, one.reward) for one in made.samples] == [
        ("question 0", "answer 0", 1.0),
        ("question 1", "answer 1", 0.0),
    ]
    assert made.closed is False


def test_a_resume_goes_on_with_the_same_run_and_a_new_collection_does_not(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    for resumed in (0, 3, 0):
        collect(output, "notebook", resumed=resumed)
    assert [one.facts.key for one in Notebook.made] == ["", "new", ""]


@pytest.mark.parametrize("broken", ["open", "log"])
def test_one_that_fails_is_named_once_and_the_others_go_on(tmp_path: Path, broken: str) -> None:
    seen = collect(tmp_path / "out.jsonl", f"notebook{broken}", "notebook")
    [notice] = [one for one in seen if isinstance(one, Notice)]
    assert f"--log-to notebook{broken} failed" in notice.text
    assert "\n" not in notice.text
    assert Notebook.made[-1].closed is False
    assert len(Notebook.made[-1].logged) == 3


def test_one_that_hangs_ends_no_later_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(run_logs, "END_SECONDS", 0.05)
    monkeypatch.setattr(Notebook, "log", lambda *_: goes_on.wait())
    seen = collect(tmp_path / "out.jsonl", "notebook")
    assert [one.text for one in seen if isinstance(one, Notice)] == [
        "--log-to notebook: not everything was sent within 0.05 s"
    ]
    goes_on.set()
    for thread in [one for one in threading.enumerate() if one.name == "log-to"]:
        thread.join()


def test_a_collection_that_ended_badly_is_a_failed_run(tmp_path: Path) -> None:
    collect(tmp_path / "out.jsonl", "notebook", exit_code=2)
    assert Notebook.made[0].closed is True


def test_without_trackers_events_only_pass_through(tmp_path: Path) -> None:
    seen = collect(tmp_path / "out.jsonl")
    assert [type(one) for one in seen] == [Progress]
    assert not (tmp_path / ".out.jsonl.log-to.json").exists()


def test_agents_have_their_own_means_where_there_are_several() -> None:
    agents = {"a": AgentProgress(1, 0, 1.0), "b": AgentProgress(0, 1, None)}
    values = progress_values(Progress(done=1, failed=1, mean_reward=1.0, agents=agents))
    assert values["reward/mean/a"] == 1.0
    assert "reward/mean/b" not in values


def test_samples_are_few_however_long_the_file_is(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(line(index, 1.0) for index in range(50)))
    assert len(read_samples(path)) == run_logs.SAMPLES


def test_what_is_unknown_or_not_installed_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no such tracker") as caught:
        check_loggers(["wand"])
    assert "wandb, mlflow, tensorboard" in str(caught.value)
    monkeypatch.setattr(run_logs, "NAMES", {"wandb": Known("m", "no_such_package_here", "wandb")})
    with pytest.raises(UserError, match="not installed") as caught:
        check_loggers(["wandb"])
    assert "pip install 'compose-gym[wandb]'" in str(caught.value)
