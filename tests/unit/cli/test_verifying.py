"""What a server is configured with for its cases, and what comes back of a trial."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from gym import labels
from gym.cli.commands import audit
from gym.cli.verifying import case_fields, run_verifier_cases, words_of
from gym.config import CatalogEntry
from gym.errors import ProgramFailed, UserError
from gym.runtime.trial_broker import trial_broker

CONFIG = """
mine:
  resources_servers:
    mine:
      entrypoint: app.py
      domain: math
      api_key: ${mine_key}
      path: ???
      nested: {deep: ["${x}"]}
      judge_model_server: {type: responses_api_models, name: policy_model}
      memory: 2g
      sandbox: {images: ["x"]}
      limit: 3
"""
APP = """
import os
import sys
from gym.server import ResourcesServer, VerifyRequest

class Mine(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        print("noise on standard output")
        return float(os.path.basename(os.getcwd()) == "mine")

app = Mine.app()
"""


@pytest.fixture
def entry(tmp_path: Path) -> CatalogEntry:
    folder = tmp_path / "mine"
    (folder / "configs").mkdir(parents=True)
    (folder / "data").mkdir()
    config = folder / "configs" / "mine.yaml"
    config.write_text(CONFIG)
    return CatalogEntry(name="mine", type="resources_servers", implementation="mine", directory=folder, config=config)


def own_python(_: CatalogEntry) -> Path:
    return Path(sys.executable)


def test_what_only_a_whole_stack_can_fill_is_left_to_the_cases(entry: CatalogEntry) -> None:
    assert case_fields(entry) == {
        "entrypoint": "app.py",
        "domain": "math",
        "judge_model_server": {"type": "responses_api_models", "name": "policy_model"},
        "limit": 3,
    }
    assert case_fields(replace(entry, config=None)) == {}


def test_cases_run_in_the_server_s_folder_and_noise_is_not_a_result(entry: CatalogEntry) -> None:
    (entry.directory / "app.py").write_text(APP)
    (entry.directory / "configs" / "mine.yaml").write_text("mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    assert run_verifier_cases(entry, own_python) == ()
    request = {"responses_create_params": {"input": "?"}, "response": {"output": []}}
    case = {"name": "a", "kind": "partial", "request": request, "expected_reward": 1.0}
    (entry.directory / "data" / "verifier_cases.jsonl").write_text(json.dumps(case) + "\n")
    (outcome,) = run_verifier_cases(entry, own_python)
    assert (outcome.name, outcome.passed, outcome.got) == ("a", True, "reward 1")
    assert not list(entry.directory.rglob("__pycache__"))


def test_an_app_that_is_not_a_server_of_ours_is_said_in_a_sentence(entry: CatalogEntry) -> None:
    (entry.directory / "configs" / "mine.yaml").write_text("mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    (entry.directory / "app.py").write_text("app = object()\n")
    (entry.directory / "data" / "verifier_cases.jsonl").write_text("")
    with pytest.raises(ProgramFailed, match="is not a server of this SDK"):
        run_verifier_cases(entry, own_python)


def test_a_broker_of_a_trial_answers_its_token_and_ends_with_the_trial() -> None:
    with trial_broker({"images": ["host"]}) as access:
        assert status_of(access.url, access.token) == 200
        assert status_of(access.url, "another") == 401
    with pytest.raises(OSError, match="refused"):
        status_of(access.url, access.token)
    assert labels.ENV_SANDBOX_TOKEN not in os.environ


def status_of(url: str, token: str) -> int:
    request = urllib.request.Request(f"{url}/sandboxes", headers={"authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


HOW_IT_ENDS = {
    "exits": ("os._exit(3)", "its process ended with exit code 3 and wrote nothing"),
    "is killed": ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL and wrote nothing"),
    "spins": ("re.match('(a+)+$', 'a' * 60 + 'b')", "nothing else could run meanwhile; it was at app.py:8"),
}


@pytest.mark.parametrize("how", HOW_IT_ENDS)
def test_a_verifier_that_ends_or_holds_its_process_is_named_by_its_case(entry: CatalogEntry, how: str) -> None:
    code, reason = HOW_IT_ENDS[how]
    (entry.directory / "configs" / "mine.yaml").write_text("mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    seconds = 0.5 if how == "spins" else 60
    hurry = f"from gym.server import case_log\ncase_log.SPARE_SECONDS, case_log.CASE_SECONDS = 1, {seconds}\n"
    (entry.directory / "app.py").write_text(f"{hurry}import re\n".replace("\n", "; ", 1) + ENDS.format(code=code))
    request = {"responses_create_params": {"input": "?"}, "response": {"output": []}}
    lines = [{"name": one, "kind": "partial", "request": request, "expected_reward": 1.0} for one in "ab"]
    path = entry.directory / "data" / "verifier_cases.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    first, second = run_verifier_cases(entry, own_python)
    assert (first.passed, first.got, first.reason) == (False, "no answer", f"data/verifier_cases.jsonl:1: {reason}")
    assert (second.passed, second.got, second.reason) == (False, "not run", "'a' got no answer")


ENDS = """import os
from gym.server import ResourcesServer, VerifyRequest

class Mine(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        {code}
        return 1.0

app = Mine.app()
"""
WRONG_APPS = {
    "no Python": ("import os\ndef (\n", ["app.py:2: invalid syntax", "    def ("]),
    "breaks": ("import os\nos.nothing()\n", ["app.py cannot be imported.", "AttributeError: module 'os' has no"]),
    "leaves": ("raise SystemExit(4)\n", ["its process ended with exit code 4 and wrote nothing"]),
}


@pytest.mark.parametrize("wrong", WRONG_APPS)
def test_an_app_that_cannot_be_loaded_is_shown_by_its_authors_lines(
    entry: CatalogEntry, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = WRONG_APPS[wrong]
    (entry.directory / "configs" / "mine.yaml").write_text("mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    (entry.directory / "app.py").write_text(code)
    (entry.directory / "data" / "verifier_cases.jsonl").write_text("")
    with pytest.raises(ProgramFailed) as failed:
        run_verifier_cases(entry, own_python)
    lines = words_of(failed.value).splitlines()
    assert (lines[0], lines[-1][: len(said[-1])]) == (said[0], said[-1])
    assert "importlib" not in "".join(lines)
    monkeypatch.setattr(audit, "find_server", lambda *_: entry)
    monkeypatch.setattr(audit, "cached_python", own_python)
    with pytest.raises(UserError) as refused:
        audit.command("mine")
    assert refused.value.what.startswith(f"mine could not be audited: {said[0]}")
