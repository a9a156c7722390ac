"""From a test run's records or its log to a status for each test, and from those to a verdict. Pure.

`swebench`'s parsers read logs of the repositories they know; pytest's records are put into their words first.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from tasks import Task

from gym.wire.failures import RolloutError

Statuses = dict[str, str]
Parser = Callable[[str], Statuses]
PASSED: Final = ("PASSED", "XFAIL")
WORST: Final = ("ERROR", "FAILED", "SKIPPED", "XFAIL", "PASSED")
# Which of swebench's parsers reads a repository's log; rows of newer data sets say it themselves (`log_parser`).
REPOSITORIES: Final = {
    "astropy/astropy": "parse_log_astropy",
    "django/django": "parse_log_django",
    "marshmallow-code/marshmallow": "parse_log_marshmallow",
    "matplotlib/matplotlib": "parse_log_matplotlib",
    "mwaskom/seaborn": "parse_log_seaborn",
    "pallets/flask": "parse_log_flask",
    "psf/requests": "parse_log_requests",
    "pvlib/pvlib-python": "parse_log_pvlib",
    "pydata/xarray": "parse_log_xarray",
    "pydicom/pydicom": "parse_log_pydicom",
    "pylint-dev/astroid": "parse_log_astroid",
    "pylint-dev/pylint": "parse_log_pylint",
    "pytest-dev/pytest": "parse_log_pytest",
    "pyvista/pyvista": "parse_log_pyvista",
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "sphinx-doc/sphinx": "parse_log_sphinx",
    "sqlfluff/sqlfluff": "parse_log_sqlfluff",
    "sympy/sympy": "parse_log_sympy",
}


class Run(NamedTuple):
    """What a run of the tests reported."""

    statuses: Statuses
    started: bool
    complete: bool
    exit_code: int | None
    reasons: Mapping[str, str]  # why a test failed


class Verdict(NamedTuple):
    resolved: bool
    tests: dict[str, dict[str, list[str]]]
    reason: str

    @property
    def failed(self) -> list[str]:
        return [name for part in self.tests.values() for name in part["failure"]]


def read_records(stdout: bytes, word: str) -> Run:
    """A test that reported twice, each time another outcome, has the worse one."""
    records = [record for line in stdout.splitlines() if (record := _record(line, word)) is not None]
    found: Statuses = {}
    reasons: dict[str, str] = {}
    for record in records:
        if (status := _status(record)) is not None:
            name = str(record["id"])
            found[name] = worse(found.get(name, status), status)
            reasons.setdefault(name, str(record.get("why") or ""))
    ends = [record["ended"] for record in records if "ended" in record]
    complete = len(ends) == 1 and "ended" in records[-1]
    return Run(found, any("started" in one for one in records), complete, ends[0] if complete else None, reasons)


def worse(one: str, other: str) -> str:
    return min(one, other, key=WORST.index)


def parser_of(task: Task) -> Parser | None:
    """None where the ids are pytest's own."""
    name = task.log_parser or REPOSITORIES.get(task.repo)
    if name is None or name == "pytest":
        return None
    found = registry().get(name)
    if found is None:
        raise RolloutError("row", f"log_parser: swebench has no parser called {name!r}")
    return lambda log: dict(found(log, None))


def registry() -> Mapping[str, Callable[[str, Any], Mapping[str, str]]]:
    """Of the swebench package, without the half of it that builds images and talks to clouds."""
    spec = importlib.util.find_spec("swebench")
    if spec is None or spec.origin is None:
        raise RolloutError("resources", "the swebench package is not installed: gym up installs requirements.txt")
    if "swebench.harness" not in sys.modules:
        package = types.ModuleType("swebench.harness")
        package.__path__ = [str(Path(spec.origin).parent / "harness")]
        sys.modules["swebench.harness"] = package
    parsers: Mapping[str, Any] = importlib.import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    return parsers


def through_parser(statuses: Statuses, parser: Parser | None) -> Statuses:
    """The names that the data set's ids were made with: its parser's, of the summary that pytest would have written."""
    if parser is None:
        return statuses
    found: Statuses = {}
    for name, status in statuses.items():
        for short, read in parser(f"{status} {name}").items():
            found[short] = worse(found.get(short, read), read)
    return found


def judge(task: Task, statuses: Statuses) -> Verdict:
    """Resolved: every listed test was seen, and passed."""
    tests = {key: _split(getattr(task, key), statuses) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    failed = Verdict(False, tests, "").failed
    if not failed:
        return Verdict(True, tests, "")
    unseen = [name for name in failed if _find(name, statuses) is None]
    what = f"{len(failed)} of {len(task.ids)} tests did not pass, {len(unseen)} of them were not even seen"
    return Verdict(False, tests, f"{what}: {', '.join(failed[:3])}")


def nothing_passed(task: Task) -> dict[str, dict[str, list[str]]]:
    return {key: {"success": [], "failure": list(getattr(task, key))} for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}


def _split(names: tuple[str, ...], statuses: Statuses) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {"success": [], "failure": []}
    for name in names:
        parts["success" if _find(name, statuses) in PASSED else "failure"].append(name)
    return parts


def _find(name: str, statuses: Statuses) -> str | None:
    """Ids of some data sets are cut off in the middle of their parameters: then all that begin so have to agree."""
    if name in statuses or name.count("[") <= name.count("]"):
        return statuses.get(name)
    fitting = [status for one, status in statuses.items() if one.startswith(name)]
    return min(fitting, key=WORST.index) if fitting else None


def _record(line: bytes, word: str) -> dict[str, Any] | None:
    head, _, body = line.partition(b" ")
    if head != word.encode():
        return None
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _status(record: Mapping[str, Any]) -> str | None:
    if "id" not in record:
        return None
    when, outcome = record.get("when"), record.get("outcome")
    if outcome == "failed":
        return "FAILED" if when == "call" else "ERROR"
    if outcome == "skipped":
        return "XFAIL" if record.get("xfail") else "SKIPPED"
    return "PASSED" if when == "call" else None
