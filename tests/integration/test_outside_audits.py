"""Two programs of others, unmodified: a client of the contract drives every server that offers no tools, and an audit
of verifiers finds no answer that is wrong and paid in strict mode."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gym.config.strict import declares_strict
from tests.support.outside import has_slot, has_tools, install, run, serving, slot_rows
from tests.support.shipped import RESOURCES, folder_of, why_not_here

pytestmark = pytest.mark.long
HERE = [name for name in RESOURCES if not why_not_here(name)]
GAMES = ("ragen",)  # a row says which game, and Nenyax opens a session with `{}`
JUDGED = ("equivalence_llm_judge", "math_with_judge", "multi_turn", "simpleqa", "text_to_sql", "xstest")
SLOTTED = [
    name
    for name in HERE
    if has_slot(name)
    and slot_rows(name)
    and not has_tools(name)
    and name not in JUDGED
    and declares_strict(folder_of(name))
]
OWN_FORMAT = "no candidate format earned any reward"
REWARDS = """
import json
import os
import urllib.error
import urllib.request


def verified(prompts, completions, answer, row, **_):
    return [reward_of(json.loads(one), said) for one, said in zip(row, completions)]


def reward_of(row, said):
    text = said if isinstance(said, str) else said[-1]["content"]
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message]}
    response |= {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    body = json.dumps({**row, "response": response}).encode()
    url, kind = os.environ["VERIFIER_URL"] + "/verify", {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=kind), timeout=60) as reply:
        return float(json.load(reply)["reward"])
"""


@pytest.fixture(scope="module")
def nenyax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install("nenyax==0.1.0a1", tmp_path_factory.mktemp("nenyax") / "venv") / "nenyax"


@pytest.fixture(scope="module")
def falsepass(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install("falsepass==0.11.0", tmp_path_factory.mktemp("falsepass") / "venv") / "falsepass"


@pytest.mark.parametrize("name", [name for name in HERE if not has_tools(name) and name not in GAMES])
async def test_another_client_of_the_contract_drives_every_server_without_tools(
    name: str, nenyax: Path, tmp_path: Path
) -> None:
    rows = folder_of(name) / "data" / "example.jsonl"
    async with serving(name, strict=False) as url:
        done = await run((str(nenyax), "check", f"nemo_gym:{url}?data={rows}", "--json"), tmp_path)
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    failed = {key: one["detail"] for key, one in checks.items() if one["status"] == "fail"}
    assert not failed, failed
    assert checks["rollout_completes"]["status"] == checks["reproducible"]["status"] == "pass"


@pytest.mark.parametrize("name", SLOTTED)
async def test_no_wrong_answer_that_another_audit_makes_is_paid_in_strict_mode(
    name: str, falsepass: Path, tmp_path: Path
) -> None:
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in slot_rows(name)))
    columns = ("--answer-column", "answer", "--prompt-column", "prompt")
    made = await run(
        (str(falsepass), "init", "rewards.py", "--dataset", "rows.jsonl", "--name", name, *columns), tmp_path
    )
    assert made.returncode == 0, made.stderr
    settings = tmp_path / "audits" / name / "env.toml"
    settings.write_text(settings.read_text().replace("[env]", '[env]\npython = "3"', 1))  # the one that is here
    async with serving(name, strict=True) as url:
        done = await run((str(falsepass), "audit", name), tmp_path, VERIFIER_URL=url)
    if OWN_FORMAT in done.stderr:
        pytest.skip(f"{name} reads a format of its own, which needs an adapter")
    paid = re.findall(r"^\| (P\d+|A1|X1)\S* [^|]*\| ([^|]+) \| zero \| \d+ \| ([1-9]\d*) \|", done.stdout, re.M)
    assert "False-pass ceiling" in done.stdout, done.stdout + done.stderr
    assert not paid, paid
