"""`gym test`, part by part: what a server's folder lacks, and what its tests say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gym.cli.commands.test import show_problems
from gym.cli.selftest import check_server, find_gaps
from gym.config import CatalogEntry
from gym.errors import InfraError
from tests.support.own_server import APP, CASES, ROW, make_case, write_server


def own_pytest(_: CatalogEntry) -> tuple[str, ...]:
    return sys.executable, "-m", "pytest"


def own_python(_: CatalogEntry) -> Path:
    return Path(sys.executable)


@pytest.fixture
def entry(tmp_path: Path) -> CatalogEntry:
    """A server that lacks nothing."""
    folder = write_server(tmp_path / "mine")
    config = folder / "configs" / "mine.yaml"
    return CatalogEntry(name="mine", type="resources_servers", implementation="mine", directory=folder, config=config)


def test_a_whole_server_whose_tests_pass_has_passed(entry: CatalogEntry) -> None:
    report = check_server(entry, own_pytest)
    assert report.passed
    assert (report.name, report.problems, report.tests, report.output) == ("mine", (), "1 passed", "")


def test_the_verifier_s_cases_are_run_and_those_that_differ_are_shown(entry: CatalogEntry) -> None:
    report = check_server(entry, own_pytest, own_python)
    assert report.passed, report
    assert [one.got for one in report.outcomes] == ["reward 1"] * 2 + ["reward 0"] * 2 + ["422 row"] + ["reward 0"] * 2
    with (entry.directory / "data" / "verifier_cases.jsonl").open("a") as cases:
        cases.write(make_case("hoped for", "full_reward", "3", expected_reward=1.0))
    report = check_server(entry, own_pytest, own_python)
    assert not report.passed
    (wrong,) = report.differing
    assert (wrong.name, wrong.expected, wrong.got) == ("hoped for", "reward 1", "reward 0")
    assert wrong.reason == "another number"


def test_a_server_that_does_not_start_says_why(entry: CatalogEntry) -> None:
    (entry.directory / "app.py").write_text("import no_such_library\n")
    report = check_server(entry, own_pytest, own_python)
    assert not report.passed
    assert "has no `no_such_library`" in report.problems[-1]


def test_an_audit_is_part_of_the_report_where_it_is_asked_for(entry: CatalogEntry) -> None:
    report = check_server(entry, own_pytest, own_python, audit=True)
    assert report.passed, report.failed_checks
    assert {"oracle answers", "empty", "concurrent", "memory"} <= {one.check for one in report.findings}


def test_cases_of_every_kind_and_an_oracle_are_asked_for(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "verifier_cases.jsonl").write_text(
        make_case("x", "zero_reward", "", expected_reward=0.0)
    )
    assert [gap.partition(": ")[2] for gap in find_gaps(entry)] == [
        "no case is an oracle's",
        "0 full_reward cases, 2 at least",
        "1 zero_reward cases, 2 at least",
        "0 malformed cases, 1 at least",
        "0 adversarial cases, 2 at least",
    ]
    example = replace(entry, kind="example")
    assert not any("zero_reward" in gap for gap in find_gaps(example))
    (entry.directory / "data" / "verifier_cases.jsonl").write_text("{}\n")
    assert any("verifier_cases.jsonl:1: name: Field required" in gap for gap in find_gaps(entry))


def test_a_checkout_that_can_make_example_rollouts_says_so_and_takes_no_offence(
    entry: CatalogEntry, tmp_path: Path
) -> None:
    folder = tmp_path / "servers" / "resources" / "mine"
    folder.parent.mkdir(parents=True)
    entry.directory.rename(folder)
    moved = replace(entry, directory=folder)
    assert check_server(moved, own_pytest).hints == ()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "examples").touch()
    report = check_server(moved, own_pytest)
    made = "no data/example_rollouts.jsonl and no data/example_metrics.json yet"
    assert report.passed
    assert report.hints == (f"{made}; once it is finished: scripts/examples mine",)


def test_a_failing_test_is_shown_with_its_reason(entry: CatalogEntry) -> None:
    (entry.directory / "tests" / "test_app.py").write_text("def test_it():\n    assert 1 + 1 == 3\n")
    report = check_server(entry, own_pytest)
    assert not report.passed
    assert report.tests == "1 failed"
    assert "assert (1 + 1) == 3" in report.output


def test_tests_need_no_settings_of_their_own(entry: CatalogEntry) -> None:
    """Async ones run; property tests depend on no clock and no chance; those that take minutes are left out."""
    (entry.directory / "tests" / "test_app.py").write_text(
        "import pytest\nfrom hypothesis import settings\n\n"
        "async def test_async():\n    assert True\n\n"
        "def test_property():\n    assert (settings().deadline, settings().derandomize) == (None, True)\n\n"
        "@pytest.mark.long\ndef test_long():\n    assert False\n"
    )
    report = check_server(entry, own_pytest, own_python)
    assert (report.passed, report.tests) == (True, "2 passed, 1 deselected")


def test_a_server_s_own_settings_hold(entry: CatalogEntry) -> None:
    (entry.directory / "pytest.ini").write_text("[pytest]\npython_files = check_*.py\n")
    (entry.directory / "tests" / "check_app.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    assert check_server(entry, own_pytest).tests == "2 passed"


def test_an_interpreter_that_is_not_there_is_a_failure_and_no_traceback(entry: CatalogEntry) -> None:
    report = check_server(entry, lambda _: ("/no/such/python",))
    assert not report.passed
    assert "/no/such/python" in report.output


def test_an_environment_that_cannot_be_made_is_said_once(entry: CatalogEntry) -> None:
    def cannot(_: CatalogEntry) -> Path:
        raise InfraError("mine: its environment could not be made.")

    report = check_server(entry, lambda one: (str(cannot(one)),), cannot)
    assert not report.passed
    assert (report.output, report.problems) == ("mine: its environment could not be made.", ())


def test_a_folder_without_a_test_has_failed_and_says_so(entry: CatalogEntry) -> None:
    (entry.directory / "tests" / "test_app.py").unlink()
    report = check_server(entry, own_pytest)
    assert (report.passed, report.tests) == (False, "no tests")


def test_why_a_server_did_not_start_is_shown_once_for_all_its_cases(
    entry: CatalogEntry, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(entry, "entrypoint: app.py", "dmain: x")
    show_problems(check_server(entry, own_pytest, own_python))
    shown = capsys.readouterr()
    text = " ".join((shown.out + shown.err).split())
    assert text.count("verifier cases") == 1
    assert "mine: 7 of 7 verifier cases got no start: " in text


def test_everything_that_is_missing_is_named(entry: CatalogEntry) -> None:
    for name in ("README.md", "data/example.jsonl", "data/verifier_cases.jsonl"):
        (entry.directory / name).unlink()
    bare = replace(entry, config=None)
    assert list(find_gaps(bare)) == [
        "no README.md",
        "no file in configs/",
        "no data/example.jsonl with 5 rows",
        "no data/verifier_cases.jsonl",
    ]


def test_a_model_needs_no_rows(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").unlink()
    assert list(find_gaps(replace(entry, type="responses_api_models"))) == []


def test_bad_rows_are_named_by_line_and_field(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").write_text(
        ROW + '{"responses_create_params": {"input": 3}}\nnot json\n'
    )
    gaps = list(find_gaps(entry))
    assert gaps[0] == "data/example.jsonl: 3 rows, 5 are asked for"
    assert gaps[1].startswith("data/example.jsonl:2: responses_create_params.input")
    assert gaps[2].startswith("data/example.jsonl:3: Invalid JSON")


def test_rows_beside_the_configuration_are_named_by_their_own_file(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").rename(entry.directory / "rows.jsonl")
    (entry.directory / "rows.jsonl").write_text(ROW + "not json\n")
    gaps = list(find_gaps(entry))
    assert gaps[0] == "rows.jsonl: 2 rows, 5 are asked for"
    assert gaps[1].startswith("rows.jsonl:2: Invalid JSON")


def test_a_config_that_is_not_yaml_is_named_by_its_line(entry: CatalogEntry) -> None:
    (config,) = (entry.directory / "configs").glob("*.yaml")
    config.write_text("one:\n  two: a: b\n")
    (gap,) = find_gaps(entry)
    assert gap.startswith(f"configs/{config.name}:2: ")


TOOLED = APP.replace(
    "    async def verify",
    "    @tool\n    async def count_letter(self, word: str) -> int:\n        return len(word)\n\n    async def verify",
).replace("import ResourcesServer,", "import ResourcesServer, tool,")


def offer(entry: CatalogEntry, tools: object) -> None:
    row = {**json.loads(ROW), "responses_create_params": {"input": "hi", "tools": tools}}
    (entry.directory / "data" / "example.jsonl").write_text((json.dumps(row) + "\n") * 5)


def test_rows_and_cases_may_ask_for_the_server_s_own_tools(entry: CatalogEntry) -> None:
    (entry.directory / "app.py").write_text(TOOLED)
    (entry.directory / "configs" / "mine.yaml").write_text("mine: {resources_servers: {mine: {entrypoint: app.py}}}\n")
    (entry.directory / "tests" / "test_app.py").write_text(
        "def test_it(rows) -> None:\n"
        "    (tool,) = rows[0]['responses_create_params']['tools']\n"
        "    assert tool['name'] == 'count_letter'\n"
    )
    offer(entry, "auto")
    asks = make_case("asks", "full_reward", "1", expected_reward=1.0, row=0, oracle=True)
    case = json.loads(asks)
    del case["request"]["responses_create_params"], case["request"]["expected"]
    with (entry.directory / "data" / "verifier_cases.jsonl").open("a") as cases:
        cases.write(json.dumps(case) + "\n")
    report = check_server(entry, own_pytest, own_python)
    assert report.passed, report


def test_a_tool_that_a_row_offers_and_the_server_lacks_is_named_with_its_line(entry: CatalogEntry) -> None:
    (entry.directory / "app.py").write_text(TOOLED)
    offer(entry, [{"type": "function", "name": "count_leter", "parameters": {}}])
    report = check_server(entry, own_pytest, own_python)
    said = "responses_create_params.tools[0].name: count_leter is not a tool of mine; did you mean count_letter?"
    assert report.problems == tuple(f"data/example.jsonl:{number}: {said}" for number in range(1, 6))
    (entry.directory / "app.py").write_text(APP)  # without tools of its own it is not asked
    assert check_server(entry, own_pytest, own_python).passed


def test_a_row_that_is_not_an_object_is_said_once_by_its_line(entry: CatalogEntry) -> None:
    (entry.directory / "data" / "example.jsonl").write_text(f"{ROW}[]\n{ROW * 3}")
    with (entry.directory / "data" / "verifier_cases.jsonl").open("a") as cases:
        cases.write(make_case("asks", "full_reward", "1", expected_reward=1.0, row=0))
    report = check_server(entry, own_pytest, own_python)
    assert report.problems == ("data/example.jsonl:2: a row is a JSON object",)


def test_damaged_cases_are_said_once(entry: CatalogEntry) -> None:
    path = entry.directory / "data" / "verifier_cases.jsonl"
    path.write_text(CASES + "{\n")
    report = check_server(entry, own_pytest, own_python)
    (said,) = report.problems
    assert said.startswith(f"{path}:8: not JSON: ")


def test_a_mark_at_the_beginning_of_a_file_is_not_damage(entry: CatalogEntry) -> None:
    for name in ("example.jsonl", "verifier_cases.jsonl"):
        path = entry.directory / "data" / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    report = check_server(entry, own_pytest, own_python)
    assert report.passed, report


def write_config(entry: CatalogEntry, *fields: str) -> None:
    assert entry.config is not None
    entry.config.write_text("\n      ".join(["mine:\n  resources_servers:\n    mine:", *fields]))


def test_what_gym_up_would_refuse_of_its_start_is_said_with_its_line(entry: CatalogEntry) -> None:
    write_config(entry, "entrypoint: main.py", "replicas: many")
    found = "\n".join(find_gaps(entry))
    assert "mine.yaml:4: mine.resources_servers.mine.entrypoint: there is no `main.py`" in found
    assert "mine.yaml:5: mine.replicas: must be a number from 0 to 1000; found `many`" in found


def test_a_field_that_a_server_refuses_is_said_with_its_line(entry: CatalogEntry) -> None:
    write_config(entry, "entrypoint: app.py", "dmain: x")
    (found,) = check_server(entry, own_pytest, own_python).problems
    assert found.endswith("mine.yaml:5: mine.dmain: no such field")


def test_a_process_that_ends_in_a_test_is_said_to_have_ended(entry: CatalogEntry) -> None:
    tests = "import os\n\ndef test_a():\n    pass\n\ndef test_b():\n    os._exit(7)\n"
    (entry.directory / "tests" / "test_app.py").write_text(tests)
    report = check_server(entry, own_pytest)
    assert not report.passed
    assert report.output.endswith("pytest did not come to its end: its process ended with exit code 7")


def test_a_server_may_be_a_link_to_a_folder_of_another_name(entry: CatalogEntry) -> None:
    (entry.directory / "tests" / "test_app.py").write_text("def test_it(app):\n    assert app is not None\n")
    there = entry.directory.rename(entry.directory.with_name("elsewhere"))
    entry.directory.symlink_to(there)
    report = check_server(entry, own_pytest)
    assert (report.tests, report.output) == ("1 passed", "")
