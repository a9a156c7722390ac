"""The files of a run: what a resume takes over, what it cuts, what it refuses, and what a fresh start moves aside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.output_files import OutputFiles, open_output
from gym.collect.sidecar import OutputPaths, StackOfRun
from gym.errors import InfraError, UserError

IDENTITY: dict[str, Any] = {"schema": 1, "data": "abc", "repeats": 2}
Seen = list[tuple[str, float | None, str]]


def opened(path: Path, *, seen: Seen | None = None, fresh: bool = False, **identity: Any) -> OutputFiles:
    found: Seen = [] if seen is None else seen
    take: Callable[[str, float | None, str], object] = lambda *seen: found.append(seen)  # noqa: E731
    output = open_output(path, {**IDENTITY, **identity}, fresh=fresh, on_done=take)
    output.close()
    return output


def rollout(digest: int, repeat: int = 0, reward: float = 1.0, text: str = "") -> bytes:
    stamp = {"key": f"{digest:016x}:{repeat}", "agent": "math", "reward": reward}
    return orjson.dumps({"reward": reward, "text": text, "_gym": stamp}) + b"\n"


def failure(digest: int, *, terminal: bool) -> bytes:
    stamp = {"key": f"{digest:016x}:0", "agent": "math", "terminal": terminal}
    return orjson.dumps({"kind": "row" if terminal else "model", "_gym": stamp}) + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out" / "X.jsonl"


def test_files_lie_next_to_each_other() -> None:
    paths = OutputPaths.beside(Path("d/X.jsonl"))
    assert paths.failures == Path("d/X_failures.jsonl")
    assert paths.metrics == Path("d/X_aggregate_metrics.json")
    assert paths.materialized == Path("d/X_materialized_inputs.jsonl")
    assert OutputPaths.beside(Path("d/X")).failures == Path("d/X_failures.jsonl")


def test_a_resume_finds_every_key_agent_and_reward(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1) + rollout(1, 1, 0.0) + rollout(2, text='"_gym":{"key":"zzz"}' * 500))
    seen: Seen = []
    output = opened(path, seen=seen)
    assert [output.done.has(1, 0), output.done.has(1, 1), output.done.has(2, 0)] == [True] * 3
    assert not output.done.has(2, 1)
    assert seen == [("math", 1.0, ""), ("math", 0.0, ""), ("math", 1.0, "")]


@pytest.mark.parametrize(
    "torn", [b"{", b'{"reward": 1', rollout(3)[:-1], b"\0" * 100], ids=["brace", "half", "no newline", "zeros"]
)
def test_a_torn_last_line_is_cut(path: Path, torn: bytes) -> None:
    opened(path)
    path.write_bytes(rollout(1) + torn)
    output = opened(path)
    assert path.read_bytes() == rollout(1)
    assert len(output.done) == 1
    assert f"a torn line of {len(torn)} bytes" in output.notices[0]


def test_lines_that_some_program_ended_in_crlf_are_done_and_their_failures_too(path: Path) -> None:
    opened(path)
    before = (rollout(1) + rollout(2)).replace(b"\n", b"\r\n")
    path.write_bytes(before + rollout(3) + rollout(4)[:-1] + b"\r")
    OutputPaths.beside(path).failures.write_bytes(failure(5, terminal=True).replace(b"\n", b"\r\n"))
    output = opened(path)
    assert [output.done.has(digest, 0) for digest in range(1, 6)] == [True, True, True, False, True]
    assert path.read_bytes() == before + rollout(3)


def test_a_byte_order_mark_is_called_so_with_the_command_that_takes_it_out(path: Path) -> None:
    opened(path)
    path.write_bytes(b"\xef\xbb\xbf" + rollout(1) + rollout(2))
    with pytest.raises(UserError, match=r"X\.jsonl begins with a byte order mark") as caught:
        opened(path)
    subprocess.run(caught.value.hint.removeprefix("take it out: "), shell=True, check=True)
    assert len(opened(path).done) == 2


def test_a_byte_order_mark_in_front_of_the_failures_costs_none_of_them(path: Path) -> None:
    opened(path)
    failures = OutputPaths.beside(path).failures
    failures.write_bytes(b"\xef\xbb\xbf" + failure(1, terminal=True))
    assert opened(path).done.has(1, 0)
    assert failures.read_bytes() == failure(1, terminal=True)


def test_a_damaged_line_in_the_middle_is_reported_with_its_number(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1) + b"garbage\n" + rollout(2))
    with pytest.raises(UserError, match=r"X\.jsonl:2: this line was not written by a collection"):
        opened(path)


def test_a_reward_that_was_damaged_is_reported_with_its_line(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1) + rollout(2).replace(b'"agent":"math","reward":1.0', b'"agent":"math","reward":null'))
    with pytest.raises(UserError, match=r"X\.jsonl:2: .* or is damaged"):
        opened(path)


def test_a_damaged_failure_is_tried_again(path: Path) -> None:
    opened(path)
    failures = OutputPaths.beside(path).failures
    damaged = [failure(1, terminal=True).replace(b'{"kind', b'{"ki\0nd'), failure(2, terminal=True)[1:], b"[]\n"]
    failures.write_bytes(b"".join(damaged) + failure(3, terminal=True))
    output = opened(path)
    assert [output.done.has(one, 0) for one in (1, 2, 3)] == [False, False, True]
    assert failures.read_bytes() == failure(3, terminal=True)


def test_a_stamp_is_found_wherever_other_tools_put_it(path: Path) -> None:
    opened(path)
    stamped = {"_gym": {"key": "0000000000000007:0", "agent": "math", "reward": 1.0}, "text": "x" * 9000}
    path.write_bytes(orjson.dumps(stamped) + b"\n")
    assert opened(path).done.has(7, 0)


def test_other_options_are_refused_by_name(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1))
    with pytest.raises(UserError) as caught:
        opened(path, repeats=4, data="xyz")
    assert "repeats: 2 then, 4 now" in str(caught.value)
    assert "data: other rows than then" in str(caught.value)
    assert "schema" not in str(caught.value)
    assert "--fresh" in caught.value.hint


def test_a_run_that_collected_nothing_binds_no_later_one(path: Path) -> None:
    opened(path)
    opened(path, agent="math")
    path.write_bytes(rollout(1))
    with pytest.raises(UserError, match='agent: "math" then, nothing now'):
        opened(path)


def test_failures_alone_bind_no_options_and_are_kept_aside(path: Path) -> None:
    """`--agent`, added after every row of the first run failed."""
    opened(path)
    OutputPaths.beside(path).failures.write_bytes(failure(1, terminal=True))
    assert opened(path).notices == []
    output = opened(path, agent="math")
    assert "the old files are now" in output.notices[0]
    assert len(output.done) == 0
    (aside,) = path.parent.glob("X.*_failures.jsonl")
    assert aside.read_bytes() == failure(1, terminal=True)
    path.write_bytes(rollout(1))
    with pytest.raises(UserError, match="other options"):
        opened(path)


def with_stack(path: Path, accept: bool = False, **instances: str) -> OutputFiles:
    stack = StackOfRun(instances, accept)
    output = open_output(path, IDENTITY, fresh=False, on_done=lambda *_: None, stack=stack)
    output.close()
    return output


def test_a_verifier_that_failed_for_every_row_may_be_fixed_before_the_resume(path: Path) -> None:
    with_stack(path, mcqa="a1")
    OutputPaths.beside(path).failures.write_bytes(failure(1, terminal=True))
    assert "the stack has changed: mcqa" in with_stack(path, mcqa="a2").notices[0]


def test_a_resume_against_a_changed_stack_is_refused_and_names_what_differs(path: Path) -> None:
    with_stack(path, mcqa="a1", model="b1")
    path.write_bytes(rollout(1))
    with_stack(path, mcqa="a1", model="b1", another="c1")
    with pytest.raises(UserError, match=r"another stack\n    model: has changed \(its") as caught:
        with_stack(path, mcqa="a1", model="b2", another="c1")
    assert "--accept-changes" in caught.value.hint
    assert "the stack has changed: model" in with_stack(path, True, mcqa="a1", model="b2", another="c1").notices[0]
    assert with_stack(path, mcqa="a1", model="b2", another="c1").notices == []
    run = orjson.loads(OutputPaths.beside(path).run.read_bytes())
    assert [one["instances"]["model"] for one in run["stacks"]] == ["b1", "b1", "b2"]
    assert len({one["digest"] for one in run["stacks"]}) == 3


def test_a_changed_stack_is_described_by_its_settings_not_by_digests(path: Path) -> None:
    def of(digest: str, parts: str, **fields: Any) -> StackOfRun:
        settings = {"agent": {"fields": fields, "parts": {"configuration": str(fields), "sources": parts}}}
        return StackOfRun({"agent": digest}, settings=settings)

    def resume(stack: StackOfRun) -> None:
        open_output(path, IDENTITY, fresh=False, on_done=lambda *_: None, stack=stack).close()

    resume(of("d1", "s1", max_steps=100, judge={"name": "a", "texts": ["x"]}))
    path.write_bytes(rollout(1))
    with pytest.raises(UserError) as caught:
        resume(of("d2", "s1", max_steps=7, judge={"name": "b", "texts": ["x"]}, strict=True))
    changes = "agent: max_steps: 100 -> 7, judge.name: a -> b, strict: default -> true"
    assert caught.value.what.splitlines()[1:] == [f"    {changes}"]
    with pytest.raises(UserError, match=r"agent: its sources changed\n"):
        resume(of("d3", "s2", max_steps=100, judge={"name": "a", "texts": ["x"]}))


def test_rollouts_of_an_unknown_run_are_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(rollout(1))
    with pytest.raises(UserError, match=r"X_run\.json, which describes their run, is missing"):
        opened(path)


def test_a_sidecar_that_cannot_be_read_is_refused(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1))
    OutputPaths.beside(path).run.write_text("{}")
    with pytest.raises(UserError, match=r"X_run\.json cannot be read"):
        opened(path)


def test_a_fresh_start_moves_everything_aside_and_deletes_nothing(path: Path) -> None:
    opened(path)
    path.write_bytes(rollout(1))
    OutputPaths.beside(path).failures.write_bytes(failure(2, terminal=True))
    output = opened(path, fresh=True, repeats=9)
    assert len(output.done) == 0
    assert path.read_bytes() == b""
    moved = sorted(one for one in path.parent.iterdir() if one.name.startswith("X.2"))
    assert len(moved) == 3
    assert rollout(1) in {one.read_bytes() for one in moved}
    opened(path, fresh=True)
    path.write_bytes(rollout(3))
    opened(path, fresh=True)
    assert {rollout(1), rollout(3)} <= {one.read_bytes() for one in path.parent.iterdir()}


def test_a_second_collector_is_refused_and_the_first_is_named(path: Path) -> None:
    first = open_output(path, IDENTITY, fresh=False, on_done=lambda *_: None)
    for fresh in (False, True):
        with pytest.raises(UserError, match=rf"another collector \(process {os.getpid()}\) writes to"):
            opened(path, fresh=fresh)
    first.close()
    opened(path)


def test_a_lock_dies_with_its_process(path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from gym.collect.output_files import open_output\n"
        f"open_output(Path(sys.argv[1]), {IDENTITY!r}, fresh=False, on_done=print)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -9
    opened(path)


def test_failures_of_the_infrastructure_are_tried_again_and_those_of_a_row_are_not(path: Path) -> None:
    opened(path)
    failures = OutputPaths.beside(path).failures
    failures.write_bytes(failure(1, terminal=False) + failure(2, terminal=True) + b'{"torn')
    seen: Seen = []
    output = opened(path, seen=seen)
    assert not output.done.has(1, 0)
    assert output.done.has(2, 0)
    assert failures.read_bytes() == failure(2, terminal=True)
    assert seen == [("math", None, "row")]
    assert output.notices == ["1 failed rollouts of the last run are retried"]
    assert not list(path.parent.glob(".*"))


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfraError, match="cannot write to"):
        opened(tmp_path / "file" / "X.jsonl")


def test_only_a_regular_file_is_written(tmp_path: Path) -> None:
    """A pipe would wait for a reader, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(UserError, match="is not a regular file"):
            opened(path)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]
