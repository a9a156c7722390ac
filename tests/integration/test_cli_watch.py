"""`gym up --watch`, as its user has it: a line for each save, the old version where the new one is not Python, and no
rollout lost while servers are reloaded."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.test_cli_compose import engine
from tests.support.cli import GYM, Terminal, environment, gym
from tests.support.docker import need_engine

WATCHES = r"watching the servers' files"
ROWS = 300


@contextmanager
def watched(folder: Path, *words: str) -> Iterator[tuple[Terminal, Path]]:
    assert gym("new", "resources", "tally", cwd=folder).returncode == 0
    words = ("up", "tally", "--model", "scripted", "--port", "0", "--watch", *words)
    with Terminal(*words, cwd=folder, env=engine()) as terminal:
        terminal.wait_for(WATCHES)
        try:
            yield terminal, next(folder.rglob("tally/app.py"))
        finally:
            assert gym("down", cwd=folder, env=engine()).returncode == 0


def pids(folder: Path) -> dict[str, int]:
    found = json.loads(gym("ps", "--json", cwd=folder, env=engine()).stdout)
    return {one["replica"]: one["pid"] for one in found["replicas"]}


def test_each_save_is_one_line_and_what_cannot_run_leaves_the_old_version(tmp_path: Path) -> None:
    with watched(tmp_path, "--runtime", "local") as (terminal, app):
        text, before = app.read_text(), pids(tmp_path)
        app.write_text(f"{text}\n# changed\n")
        terminal.wait_for(r"tally/app\.py saved: tally reloaded in [\d.]+s")
        terminal.wait_for(r"tally-1 +\| .*tally is ready")
        after = pids(tmp_path)
        assert {name for name in before if before[name] != after[name]} == {"tally-1"}

        os.utime(app)
        terminal.wait_for(r"app\.py saved as the servers have it: nothing to do")
        app.write_text(f"{text}\ndef (:\n")
        terminal.wait_for(r"(?s)app\.py, line \d+: invalid syntax.*not taken over, the servers go on as they were")
        assert pids(tmp_path) == after

        app.write_text(f"{text}\nthis_is_no_name\n")
        terminal.wait_for(r"tally-1 does not start: NameError: .* \(app\.py, line \d+\); it is down until")
        (app.parent / "words.py").write_text("WORD = 'a'\n")
        app.write_text(f"{text}\nimport words\n")
        terminal.wait_for(r"app\.py saved, \S+words\.py is new: tally reloaded in")
        (app.parent / "words.py").unlink()
        terminal.wait_for(r"words\.py removed: tally-1 does not start: app\.py:\d+: .* has no `words`; it is down")
        app.write_text(text)
        terminal.wait_for(r"(?s)has no `words`.*down until.*app\.py saved: tally reloaded in")


def test_prompts_and_configurations_are_taken_over_and_the_watch_ends_with_its_stack(tmp_path: Path) -> None:
    with watched(tmp_path, "--runtime", "local") as (terminal, app):
        before = pids(tmp_path)
        (app.parent / "prompt.txt").write_text("be brief\n")  # no source by its name, and what the server may have read
        terminal.wait_for(r"prompt\.txt is new: tally reloaded in")
        assert pids(tmp_path)["tally-1"] != before["tally-1"]
        config = app.parent / "configs" / "tally.yaml"
        config.write_text(f"{config.read_text()}# a remark\n")
        terminal.wait_for(r"tally\.yaml saved: nothing changes for the servers")
        (tmp_path / "env.yaml").write_text("tally:\n  resources_servers:\n    tally:\n      description: another\n")
        terminal.wait_for(r"env\.yaml is new: tally replaced \(configuration changed\) in")
        (tmp_path / "env.yaml").write_text("tally: [\n")
        terminal.wait_for(r"env\.yaml saved: not taken over, the servers go on as they were")
        assert gym("down", cwd=tmp_path).returncode == 0
        terminal.wait_for("the stack was stopped: the watch ends")
        assert terminal.wait() == 0
        assert terminal.is_sane()


def test_ctrl_c_ends_the_watch_and_leaves_the_stack(tmp_path: Path) -> None:
    with watched(tmp_path, "--runtime", "local") as (terminal, _):
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert terminal.is_sane()
        assert gym("ps", cwd=tmp_path).returncode == 0


def collect_while_saving(folder: Path, terminal: Terminal, app: Path, saves: int) -> None:
    """A run of many rollouts, with its server replaced under it some times."""
    row = (app.parent / "data" / "example.jsonl").read_text().splitlines()[0]
    (folder / "rows.jsonl").write_text(f"{row}\n" * ROWS)
    argv = (GYM, "rollouts", "rows.jsonl", "-o", "out.jsonl", "--concurrency", "16")
    with (folder / "said.txt").open("w") as said:
        run = subprocess.Popen(argv, cwd=folder, env=environment(engine()), stdout=said, stderr=said)
    try:
        for number in range(1, saves + 1):
            app.write_text(f"{app.read_text()}\n# {number}\n")
            terminal.wait_for(rf"(?s)(tally reloaded in.*){{{number}}}")
        assert run.wait(timeout=300) == 0, (folder / "said.txt").read_text()
    finally:
        run.kill()
        run.wait()
    rollouts = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len({(one["_ng_task_index"], one["_ng_rollout_index"]) for one in rollouts}) == len(rollouts) == ROWS
    assert not (folder / "out_failures.jsonl").exists() or not (folder / "out_failures.jsonl").read_text()


def test_saves_during_a_run_lose_and_repeat_no_rollout(tmp_path: Path) -> None:
    with watched(tmp_path, "--runtime", "local") as (terminal, app):
        collect_while_saving(tmp_path, terminal, app, saves=3)


@pytest.mark.docker
def test_containers_take_a_save_without_a_build(tmp_path: Path) -> None:
    need_engine()
    with watched(tmp_path, "--runtime", "compose") as (terminal, app):
        collect_while_saving(tmp_path, terminal, app, saves=1)
        text = app.read_text()
        (app.parent / "env.yaml").write_text("policy_api_key: a-secret-of-mine\n")
        terminal.wait_for(r"env\.yaml is new: tally reloaded in")
        inside = gym("exec", "tally", "--", "ls", "/app", cwd=tmp_path, env=engine())
        assert "app.py" in inside.stdout.split(), inside
        assert "env.yaml" not in inside.stdout.split()
        app.write_text(f"{text}\nthis_is_no_name\n")
        terminal.wait_for(r"tally-1 does not start: NameError.*it is down until a fix is saved")
        app.write_text(f"{text}\n")
        terminal.wait_for(r"(?s)it is down until.*app\.py saved: tally reloaded in")
        refused = gym("lock", cwd=tmp_path, env=engine())
        assert refused.returncode == 1
        assert "started with --watch" in refused.stderr
        (app.parent / "Dockerfile").write_text("ARG GYM_BASE\nFROM ${GYM_BASE}\nCOPY . ./\n")
        terminal.wait_for(r"Dockerfile is new: tally replaced, from a new image in")
