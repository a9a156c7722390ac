"""Example rollouts of a server, by a real stack: oracle answers where its cases have some, else the scripted policy.

What differs from run to run (ids, times) is made the same, so that making them again changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gym.cli.oracle_answers import answer_of
from gym.config import find_server, own_fields
from gym.files import write_atomically
from gym.server.cases import CASES, Case, load_cases

ROOT = Path(__file__).resolve().parents[1]
RESOURCES = ROOT / "servers" / "resources"
GYM = Path(sys.executable).with_name("gym")
ID = re.compile(r"\b(resp|msg|call|rs|fc)_[0-9a-f]{32}\b")
PLACE = re.compile(r"\b(127\.0\.0\.1|localhost):\d{2,5}\b")
KEPT = ("key", "agent", "reward", "attempt", "model", "tokens")  # of the collector's own record
TIMES = ("created_at", "completed_at", "started_at", "finished_at")


def main(names: list[str]) -> int:
    if names == ["--all"]:
        names = sorted(path.parent.name for path in RESOURCES.glob("*/app.py"))
    unknown = [name for name in names if not (RESOURCES / name / "app.py").is_file()]
    if not names or unknown:
        sys.stderr.write(
            f"usage: scripts/examples NAME... | --all{f'; no such server: {unknown}' if unknown else ''}\n"
        )
        return 2
    failed = [name for name in names if not _make(name)]
    if failed:
        sys.stderr.write(f"not made: {', '.join(failed)}\n")
    return int(bool(failed))


def _make(name: str) -> bool:
    """True when all of its example rows became rollouts."""
    folder = RESOURCES / name
    oracles = _oracles(folder)
    with tempfile.TemporaryDirectory(prefix="gym-examples.") as scratch:
        here = Path(scratch)
        settings = _settings(name, oracles)
        if oracles:
            answers = here / "answers.jsonl"
            answers.write_text("".join(json.dumps(answer_of(case)) + "\n" for case in oracles), "utf-8")
            settings.append(f"++policy_model.responses_api_models.scripted.answers={answers}")
        try:
            _gym(here, "up", name, *settings, "--model", "scripted", "--runtime", "local", "--port", "0")
            _gym(here, "rollouts", name, "-o", "r.jsonl", "--concurrency", "1")
            _write(folder / "data", here)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{name}: {' '.join(error.cmd[1:])}\n{error.stdout}{error.stderr}\n")
            return False
        finally:
            subprocess.run([GYM, "down"], cwd=here, env=_environment(), capture_output=True, check=False)
    sys.stderr.write(f"{name}: {len(oracles)} oracle answers\n")
    return True


def _oracles(folder: Path) -> list[Case]:
    """The oracle case of each example row that has one."""
    asked = [row["responses_create_params"]["input"] for row in _lines(folder / "data" / "example.jsonl")]
    return [
        case
        for case in (load_cases(folder / CASES) if (folder / CASES).is_file() else ())
        if case.oracle and "response" in case.request and case.request["responses_create_params"].get("input") in asked
    ]


def _settings(name: str, oracles: list[Case]) -> list[str]:
    """What the oracle cases are configured with: a recorded web, a strict mode; the scripted policy judges, too."""
    config = dict(oracles[0].config) if oracles else {}
    if "judge_model_server" in {**own_fields(find_server(name, [ROOT])), **config}:
        judge = {"type": "responses_api_models", "name": "policy_model"}
        config |= {"judge_model_server": judge, "judge_may_be_policy": True}
    return [f"++{name}.resources_servers.{name}.{key}={json.dumps(value)}" for key, value in config.items()]


def _write(data: Path, here: Path) -> None:
    rollouts = sorted(_lines(here / "r.jsonl"), key=lambda one: (one["_ng_task_index"], one["_ng_rollout_index"]))
    rows = len(_lines(data / "example.jsonl"))
    if len(rollouts) != rows:
        failures = (here / "r_failures.jsonl").read_text("utf-8")[:2000]
        raise subprocess.CalledProcessError(1, [str(GYM), "rollouts"], f"{len(rollouts)} of {rows} rows", failures)
    for one in rollouts:
        one["_gym"] = {key: value for key, value in one["_gym"].items() if key in KEPT}
    lines = "".join(json.dumps(_steady(one, {}), ensure_ascii=False) + "\n" for one in rollouts)
    write_atomically(data / "example_rollouts.jsonl", lines, mode=0o644)
    metrics = json.loads((here / "r_aggregate_metrics.json").read_text("utf-8"))
    text = json.dumps(_steady(metrics, {}), indent=2, ensure_ascii=False) + "\n"
    write_atomically(data / "example_metrics.json", text, mode=0o644)


def _steady(value: Any, ids: dict[str, str]) -> Any:
    """Ids numbered in the order they come in, times and ports at nothing."""
    if isinstance(value, dict):
        return {
            key: 0 if key in TIMES and isinstance(one, (int, float)) else _steady(one, ids)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_steady(one, ids) for one in value]
    if not isinstance(value, str):
        return value
    text = ID.sub(lambda found: ids.setdefault(found.group(), f"{found.group(1)}_{len(ids) + 1}"), value)
    return PLACE.sub(r"\1:0", text)


def _gym(here: Path, *arguments: str) -> None:
    subprocess.run([GYM, *arguments], cwd=here, env=_environment(), capture_output=True, text=True, check=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "GYM_PATH": str(ROOT), "GYM_STACK": f"examples-{os.getpid()}"}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()] if path.is_file() else []


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
