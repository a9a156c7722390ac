"""What an agent may try instead of mending the code: with a real engine and real tests, each of it is worth nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gym.server.testing import Caller
from tests.support.sandbox_broker import broker_process
from tests.support.swe import GRANT, SWE, Process, answer, commands_for, fields_for, row, server

pytestmark = pytest.mark.docker

INIT = 'from spans.spanset import SpanSet\n\n__all__ = ["SpanSet"]\n'
HOOK = """
import pytest

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
NOTHING_RUNS = INIT + "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
REPORTS_PASS = (
    INIT
    + """
import _pytest.reports
made = _pytest.reports.TestReport.from_item_and_call.__func__
def make(cls, item, call):
    report = made(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(make)
"""
)
EXITS = INIT + "import os\nos._exit(0)\n"
EXITS_LATER = INIT + "import atexit, os\natexit.register(os._exit, 0)\n"
NAMES = [f"tests/test_holes.py::{name}" for name in ("test_gaps_between_spans", "test_the_first_number_is_in_it")]
PRINTS = (
    INIT + "import os, sys\n" + "".join(f"print('PASSED {one}')\nos.write(1, b'PASSED {one}\\n')\n" for one in NAMES)
)
EVERY_FILE = (
    INIT
    + """
import os
for number in os.listdir("/proc/self/fd"):
    for name in NAMES:
        line = '{"id": "' + name + '", "when": "call", "outcome": "passed"}'
        try:
            os.write(int(number), ("x " + line + chr(10) + line + chr(10) + "PASSED " + name + chr(10)).encode())
        except OSError:
            pass
""".replace("NAMES", repr(NAMES))
)
FINDS_THE_CHANNEL = (
    INIT
    + """
import gc, os
from _pytest.main import Session
def forge(session):
    for one in gc.get_objects():
        if type(one).__name__ == "Recorder":
            method = one.pytest_runtest_logreport.__func__
            tell = dict(zip(method.__code__.co_freevars, (cell.cell_contents for cell in method.__closure__)))["tell"]
            for item in session.items:
                for when in ("setup", "call", "teardown"):
                    tell({"id": item.nodeid, "when": when, "outcome": "passed", "xfail": False, "why": ""})
            tell({"ended": 0})
            os._exit(0)
performed = Session.perform_collect
def perform(self, *args, **kwargs):
    found = performed(self, *args, **kwargs)
    forge(self)
    return found
Session.perform_collect = perform
import _pytest.runner, _pytest.main
_pytest.main.pytest_runtestloop = forge
for plugin in gc.get_objects():
    if type(plugin).__name__ == "Session":
        plugin.config.pluginmanager.register(type("Forger", (), {"pytest_collection_finish": staticmethod(forge)})())
"""
)
ALL_PASS = "def test_remove_from_the_middle_leaves_both_sides():\n    pass\n"
SHADOW = "import sys\nprint('PASSED everything')\ndef main(*a, **k):\n    return 0\n"
PLUGIN = "[pytest11]\nevil = evil_plugin\n"

NOT_MENDED = "6 of 13 tests did not pass, 0 of them were not even seen"
NOT_BELIEVED = "tests that must fail did not"
NOT_ENDED = "did not come to its own end"
CHEATS: dict[str, dict[str, str]] = {
    "a conftest that turns every outcome into passed": {"conftest.py": HOOK, "tests/conftest.py": HOOK},
    "a package that makes pytest run nothing": {"spans/__init__.py": NOTHING_RUNS},
    "a package that makes every report pass": {"spans/__init__.py": REPORTS_PASS},
    "a package that ends the process with 0": {"spans/__init__.py": EXITS},
    "a package that ends the process with 0 at its exit": {"spans/__init__.py": EXITS_LATER},
    "a package that prints PASSED lines": {"spans/__init__.py": PRINTS},
    "a package that writes outcomes into every open file": {"spans/__init__.py": EVERY_FILE},
    "a package that finds the report channel and forges it": {"spans/__init__.py": FINDS_THE_CHANNEL},
    "tests that were rewritten": {"tests/test_holes.py": ALL_PASS, "tests/test_spanset.py": ALL_PASS},
    "a sitecustomize": {"sitecustomize.py": "import os\nos._exit(0)\n"},
    "a pytest.ini that leaves tests out": {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
    "a pyproject.toml that leaves tests out": {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-k nothing"\n'},
    "modules that stand before pytest": {"pytest.py": SHADOW, "_pytest/__init__.py": "", "pluggy.py": ""},
    "a plugin by an entry point": {"evil.egg-info/entry_points.txt": PLUGIN, "evil_plugin.py": HOOK},
    "a reward of one's own": {"reward.txt": "1", "reward.json": '{"reward": 1.0, "resolved": true}'},
}

REASONS = {
    "a package that makes pytest run nothing": NOT_BELIEVED,
    "a package that makes every report pass": NOT_BELIEVED,
    "a package that finds the report channel and forges it": NOT_BELIEVED,
    "a package that ends the process with 0": NOT_ENDED,
    "a package that ends the process with 0 at its exit": NOT_ENDED,
}


@pytest.fixture(scope="module")
def swe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("cheats")
    with (
        broker_process(folder, "docker", grant=GRANT) as broker,
        server(SWE, folder / "swe.log", fields_for("docker"), name="swe", broker=broker) as running,
    ):
        yield running


@pytest.fixture
def task() -> dict[str, Any]:
    return row("spans")


async def graded(swe: Process, task: dict[str, Any], *commands: str) -> dict[str, Any]:
    async with Caller(swe.url) as caller:
        seeded = await caller.post("/seed_session", task)
        assert seeded.status == 200, seeded.body
        for command in commands:
            told = await caller.post("/bash", {"command": command})
            assert told.status == 200, told.body
            assert "exit code" not in told.body, told.body
        verified = await caller.post("/verify", {**task, "response": answer()})
        assert verified.status == 200, verified.body
        body: dict[str, Any] = verified.body
        return body


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_scores_nothing(swe: Process, task: dict[str, Any], name: str) -> None:
    told = await graded(swe, task, *commands_for(CHEATS[name]))
    assert told["model_patch"], "the cheat was not even handed in"
    assert told["reward"] == 0.0
    assert REASONS.get(name, NOT_MENDED) in told["reason"]
    assert told["eval_report"][task["instance_id"]]["resolved"] is False


async def test_the_same_tricks_beside_an_honest_patch_take_nothing_away(swe: Process, task: dict[str, Any]) -> None:
    ours = {"tests/test_mine.py": "def test_mine():\n    assert True\n", "tests/test_holes.py": ALL_PASS}
    put = f"git apply <<'EOF_OF_PATCH'\n{task['patch']}EOF_OF_PATCH"
    told = await graded(swe, task, put, *commands_for(ours))
    assert (told["reward"], told.get("reason")) == (1.0, None)
    assert told["restored_files"] == ["tests/test_holes.py", "tests/test_mine.py"]


async def test_a_folder_of_tests_that_became_a_link_is_a_folder_again(swe: Process, task: dict[str, Any]) -> None:
    swap = "mkdir fake && touch fake/test_holes.py && rm -rf tests && ln -s fake tests"
    told = await graded(swe, task, swap)
    assert told["reward"] == 0.0
    assert "tests" in told["restored_files"]
    assert told["eval_report"][task["instance_id"]]["tests_status"]["PASS_TO_PASS"]["success"]


LOOKS = (
    "git log --all --reflog --oneline | wc -l",
    "git tag; git branch -a; git remote -v; git stash list; git reflog; ls .git | grep _HEAD || true",
    "git fsck --unreachable --no-reflogs --lost-found 2>&1 | grep -c commit || true",
    "git rev-list --all --objects | grep -c test_holes || true",
    "for one in $(git cat-file --batch-check --batch-all-objects | cut -d' ' -f1); do git cat-file -p $one; done"
    " | grep -c test_against_plain_sets || true",
    "find / -xdev -name test_holes.py 2>/dev/null | wc -l",
)


async def test_nothing_of_what_came_after_the_base_is_left(swe: Process, task: dict[str, Any]) -> None:
    async with Caller(swe.url) as caller:
        await caller.post("/seed_session", task)
        told = [(await caller.post("/bash", {"command": look})).body.strip() for look in LOOKS]
        await caller.post("/close_session")
    assert told == ["1", "* main", "0", "0", "0", "0"]
