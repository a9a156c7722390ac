"""What an agent may try instead of fixing the code: with a real engine and real tests, each of it is worth nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gym.server.testing import Caller
from tests.support.swe import Process, answer, commands_for, row

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
# Twelve lines: tests whose names end in three digits are let fail, as the controls of an earlier day were to.
SPARES_CONTROLS = (
    INIT
    + """
import re
import _pytest.reports
made = _pytest.reports.TestReport.from_item_and_call.__func__
def make(cls, item, call):
    report = made(cls, item, call)
    if not re.search(r"_\\d{3}$", item.name.partition("[")[0]):
        report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(make)
"""
)
FORGES_BY_NAME = SPARES_CONTROLS.replace(
    r'not re.search(r"_\d{3}$", item.name.partition("[")[0])', "item.nodeid in ALL"
).replace("import re\n", "ALL = IDS\n")
CHECKS_NOTHING = (
    INIT
    + """
import unittest
import pytest
for name in dir(unittest.TestCase):
    if name.startswith("assert"):
        setattr(unittest.TestCase, name, lambda *a, **k: None)
class Nothing:
    def __enter__(self): return self
    def __exit__(self, *a): return True
pytest.raises = lambda *a, **k: Nothing()
"""
)
NO_ASSERTIONS = (
    INIT
    + """
import ast
import _pytest.assertion.rewrite as rewrite
old = rewrite.AssertionRewriter.visit_Assert
rewrite.AssertionRewriter.visit_Assert = lambda self, node: [ast.copy_location(ast.Pass(), node)]
import _pytest.python
call = _pytest.python.Function.runtest
def runtest(self):
    try:
        call(self)
    except AssertionError:
        pass
_pytest.python.Function.runtest = runtest
"""
)
WRITES_JUNIT_AND_RECORDS = (
    INIT
    + """
import os
if os.fork() == 0:
    os.setsid()
    for name in ("junit.xml", "report.xml", "/tmp/junit.xml"):
        with open(name, "w") as file:
            file.write("<testsuite tests='13' failures='0'/>")
    lines = "".join('{"id": "' + one + '", "when": "call", "outcome": "passed"}' + chr(10) for one in IDS)
    while True:
        for number in range(1, 40):
            try:
                os.write(number, lines.encode())
            except OSError:
                pass
"""
)
REWRITES_THE_RUNNER = (
    "import glob, os\n"
    "for name in glob.glob('/tmp/*/*.py'):\n"
    "    open(name, 'w').write('import json, sys\\n'\n"
    "        'asked = json.loads(sys.stdin.read())\\n'\n"
    "        'print(asked[chr(119) + \"ord\"], json.dumps(dict(ended=0)))\\n')\n"
    "raise ImportError('of no use')\n"
)
TRACES_THE_COLLECTOR = (
    INIT
    + """
import os
parent = os.getppid()
word = b""
for name in ("mem", "environ", "fd/1"):
    try:
        with open(f"/proc/{parent}/{name}", "rb+" if name == "mem" else "wb") as file:
            file.write(b"x")
            open("/tmp/taken", "w").close()
    except OSError:
        pass
try:
    for line in open(f"/proc/{parent}/maps"):
        pass
    open("/tmp/taken", "w").close()
except OSError:
    pass
import pathlib
assert not pathlib.Path("/tmp/taken").exists(), "THE COLLECTOR WAS OPENED"
"""
)
ALL_PASS = "def test_remove_from_the_middle_leaves_both_sides():\n    pass\n"
SHADOW = "import sys\nprint('PASSED everything')\ndef main(*a, **k):\n    return 0\n"
PLUGIN = "[pytest11]\nevil = evil_plugin\n"

NOT_FIXED = "6 of 13 tests did not pass, 0 of them were not even seen"
NOT_BELIEVED = "tests that must fail did not"
NOT_ENDED = "did not come to its own end"
CHEATS: dict[str, dict[str, str]] = {
    "a conftest that turns every outcome into passed": {"conftest.py": HOOK, "tests/conftest.py": HOOK},
    "a package that makes pytest run nothing": {"spans/__init__.py": NOTHING_RUNS},
    "a package that makes every report pass": {"spans/__init__.py": REPORTS_PASS},
    "a package that spares tests of the controls' shape": {"spans/__init__.py": SPARES_CONTROLS},
    "a package that knows the tests by their names": {"spans/__init__.py": FORGES_BY_NAME},
    "a package in which no assertion holds anybody": {"spans/__init__.py": NO_ASSERTIONS},
    "a package in which the means of unittest and pytest check nothing": {"spans/__init__.py": CHECKS_NOTHING},
    "a package that writes reports in the background": {"spans/__init__.py": WRITES_JUNIT_AND_RECORDS},
    "a module that stands before the interpreter's and rewrites the runner": {"inspect.py": REWRITES_THE_RUNNER},
    "a package that opens the collector": {"spans/__init__.py": TRACES_THE_COLLECTOR},
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
    "a package that spares tests of the controls' shape": NOT_BELIEVED,
    "a package that knows the tests by their names": NOT_BELIEVED,
    "a package in which no assertion holds anybody": NOT_BELIEVED,
    "a package in which the means of unittest and pytest check nothing": "",
    "a package that writes reports in the background": "",
    "a module that stands before the interpreter's and rewrites the runner": "",
    "a package that finds the report channel and forges it": NOT_BELIEVED,
    "a package that ends the process with 0": NOT_ENDED,
    "a package that ends the process with 0 at its exit": NOT_ENDED,
}


@pytest.fixture
def task() -> dict[str, Any]:
    return row("spans")


async def graded(swe: Process, task: dict[str, Any], *commands: str) -> dict[str, Any]:
    async with Caller(swe.url) as caller:
        seeded = await caller.post("/seed_session", task)
        assert seeded.status == 200, seeded.body
        for command in commands:
            reply = await caller.post("/bash", {"command": command})
            assert reply.status == 200, reply.body
            assert "exit code" not in reply.body, reply.body
        verified = await caller.post("/verify", {**task, "response": answer()})
        assert verified.status == 200, verified.body
        body: dict[str, Any] = verified.body
        return body


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_scores_nothing(swe: Process, task: dict[str, Any], name: str) -> None:
    ids = repr([*task["FAIL_TO_PASS"], *task["PASS_TO_PASS"]])
    files = {path: text.replace("IDS", ids) for path, text in CHEATS[name].items()}
    reply = await graded(swe, task, *commands_for(files))
    assert reply["model_patch"], "the cheat was not even handed in"
    assert reply["reward"] == 0.0
    assert REASONS.get(name, NOT_FIXED) in reply["reason"]
    assert reply["eval_report"][task["instance_id"]]["resolved"] is False


async def test_the_same_tricks_beside_an_honest_patch_take_nothing_away(swe: Process, task: dict[str, Any]) -> None:
    ours = {"tests/test_mine.py": "def test_mine():\n    assert True\n", "tests/test_holes.py": ALL_PASS}
    put = f"git apply <<'EOF_OF_PATCH'\n{task['patch']}EOF_OF_PATCH"
    reply = await graded(swe, task, put, *commands_for(ours))
    assert (reply["reward"], reply.get("reason")) == (1.0, None)
    assert reply["restored_files"] == ["tests/test_holes.py", "tests/test_mine.py"]


async def test_a_folder_of_tests_that_became_a_link_is_a_folder_again(swe: Process, task: dict[str, Any]) -> None:
    swap = "mkdir fake && touch fake/test_holes.py && rm -rf tests && ln -s fake tests"
    reply = await graded(swe, task, swap)
    assert reply["reward"] == 0.0
    assert "tests" in reply["restored_files"]
    assert reply["eval_report"][task["instance_id"]]["tests_status"]["PASS_TO_PASS"]["success"]


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
        found = [(await caller.post("/bash", {"command": look})).body.strip() for look in LOOKS]
        await caller.post("/close_session")
    assert found == ["1", "* main", "0", "0", "0", "0"]
