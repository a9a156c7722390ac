"""`gym test`, `gym audit`, `gym list` and `gym info` as a person types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import gym


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    assert gym("new", "resources", "mine", cwd=tmp_path).returncode == 0
    return tmp_path / "mine"


def test_a_new_server_passes_its_cases_and_its_audit(mine: Path) -> None:
    done = gym("test", "mine", "--audit", cwd=mine.parent, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^mine +passed +2 passed, 1 deselected +14 passed +[0-9]+ passed", done.stdout, re.M)
    audited = gym("audit", "mine", "--quick", cwd=mine.parent, timeout=180)
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert re.search(r"^label injection +passed", audited.stdout, re.M)
    assert re.search(r"^memory +passed", audited.stdout, re.M)


def test_a_verifier_that_can_be_talked_round_fails_with_a_table_and_an_audit_that_says_how(mine: Path) -> None:
    app = mine / "app.py"
    easy = 'return float("CORRECT" in rollout.last_text or str(rollout.expected_count) in numbers)'
    app.write_text(re.sub(r"return float\(bool\(numbers\).*", easy, app.read_text()))
    done = gym("test", "mine", cwd=mine.parent, timeout=180)
    assert done.returncode == 1
    assert "mine: 1 of 14 verifier cases differ" in done.stdout
    assert re.search(r"^of many numbers the last one counts +reward 0 +reward 1", done.stdout, re.M)
    audited = gym("audit", "mine", "--quick", "--json", cwd=mine.parent, timeout=180)
    assert audited.returncode == 1
    failed = {one["check"]: one["detail"] for one in json.loads(audited.stdout) if not one["passed"]}
    assert set(failed) == {"label injection"}
    assert "'CORRECT' got 1.0" in failed["label injection"]


def test_what_has_no_verifier_or_no_oracle_is_said_in_a_sentence(mine: Path) -> None:
    done = gym("audit", "scripted", cwd=mine.parent)
    assert done.returncode == 1
    assert "scripted has no verifier" in done.stderr
    (mine / "data" / "verifier_cases.jsonl").write_text("{}\n")
    done = gym("audit", "mine", cwd=mine.parent, timeout=180)
    assert done.returncode == 1
    assert "verifier_cases.jsonl:1: name: Field required" in done.stderr
    assert "Traceback" not in done.stderr


def test_servers_are_listed_by_kind_and_domain_and_as_a_page(tmp_path: Path) -> None:
    examples = json.loads(gym("list", "--kind", "example", "--json", cwd=tmp_path).stdout)
    assert {"simple_weather", "multi_step", "stateful_counter"} <= {one["name"] for one in examples}
    assert {one["kind"] for one in examples} == {"example"}
    listed = gym("list", "--domain", "knowledge", cwd=tmp_path).stdout
    assert re.search(r"^mcqa +resources +knowledge +rule +Apache 2.0", listed, re.M)
    assert "simple_weather" not in listed
    assert gym("list", "--markdown", cwd=tmp_path).stdout.startswith("# Servers\n")


def test_info_shows_the_readme_the_config_with_its_comments_the_row_fields_and_a_row(tmp_path: Path) -> None:
    output = gym("info", "mcqa", cwd=tmp_path).stdout
    assert "# mcqa" in output
    assert "# grading_mode: lenient_boxed" in output
    assert re.search(r"^options +list of object +\[", output, re.M)
    assert '"uuid": "mcqa-example-0"' in output
    fields = json.loads(gym("info", "mcqa", "--json", cwd=tmp_path).stdout)["row_fields"]
    assert {"name": "expected_answer", "type": "text", "example": '"A"'} in fields
