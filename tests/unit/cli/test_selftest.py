"""`gym test`, part by part: what a server's folder lacks, and what its tests say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gym.cli.selftest import find_gaps
from gym.cli.selftest import test_server as check_server
from gym.config import CatalogEntry

ROW = '{"responses_create_params": {"input": "hi"}, "expected": 1}\n'


def own_pytest(_: CatalogEntry) -> tuple[str, ...]:
    return sys.executable, "-m", "pytest"


@pytest.fixture
def entry(tmp_path: Path) -> CatalogEntry:
    """A server that lacks nothing."""
    folder = tmp_path / "mine"
    for name, text in {
        "app.py": "app = None\n",
        "README.md": "# mine\n",
        "configs/mine.yaml": "mine: {}\n",
        "data/example.jsonl": ROW * 5,
        "tests/test_app.py": "def test_it() -> None:\n    assert True\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    config = folder / "configs" / "mine.yaml"
    return CatalogEntry(name="mine", type="resources_servers", implementation="mine", directory=folder, config=config)


def test_a_whole_server_whose_tests_pass_has_passed(entry: CatalogEntry) -> None:
    report = check_server(entry, own_pytest)
    assert report.passed
    assert (report.name, report.problems, report.tests, report.output) == ("mine", (), "1 passed", "")


def test_a_failing_test_is_shown_with_its_reason(entry: CatalogEntry) -> None:
    (entry.directory / "tests" / "test_app.py").write_text("def test_it():\n    assert 1 + 1 == 3\n")
    report = check_server(entry, own_pytest)
    assert not report.passed
    assert report.tests == "1 failed"
    assert "assert (1 + 1) == 3" in report.output


def test_async_tests_run_without_any_settings(entry: CatalogEntry) -> None:
    (entry.directory / "tests" / "test_app.py").write_text("async def test_it():\n    assert True\n")
    assert check_server(entry, own_pytest).tests == "1 passed"


def test_a_server_s_own_settings_hold(entry: CatalogEntry) -> None:
    (entry.directory / "pytest.ini").write_text("[pytest]\npython_files = check_*.py\n")
    (entry.directory / "tests" / "check_app.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    assert check_server(entry, own_pytest).tests == "2 passed"


def test_an_interpreter_that_is_not_there_is_a_failure_and_no_traceback(entry: CatalogEntry) -> None:
    report = check_server(entry, lambda _: ("/no/such/python",))
    assert not report.passed
    assert "/no/such/python" in report.output


def test_everything_that_is_missing_is_named(entry: CatalogEntry) -> None:
    for name in ("README.md", "data/example.jsonl"):
        (entry.directory / name).unlink()
    bare = entry.model_copy(update={"config": None})
    assert list(find_gaps(bare)) == ["no README.md", "no file in configs/", "no data/example.jsonl with 5 rows"]


def test_a_model_needs_no_rows(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").unlink()
    assert list(find_gaps(entry.model_copy(update={"type": "responses_api_models"}))) == []


def test_bad_rows_are_named_by_line_and_field(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").write_text(
        ROW + '{"responses_create_params": {"input": 3}}\nnot json\n'
    )
    gaps = list(find_gaps(entry))
    assert gaps[0] == "data/example.jsonl: 3 rows, 5 are asked for"
    assert gaps[1].startswith("data/example.jsonl:2: responses_create_params.input")
    assert gaps[2].startswith("data/example.jsonl:3: Invalid JSON")
