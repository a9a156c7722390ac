"""Checks that a server's folder is complete, and runs its own tests and verifier cases in its own environment."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson
from pydantic import ValidationError

from gym.cli.audit.subject import AuditFinding
from gym.cli.field_places import refused_lines
from gym.cli.verifying import audit_server, run_verifier_cases, words_of
from gym.config import CatalogEntry, LoadRequest, is_foreign, load_stack, own_fields
from gym.config.example_rows import EXAMPLE, example_of
from gym.config.instance_keys import FACTS
from gym.config.yaml_source import read_yaml
from gym.data.row_servers import FindPython
from gym.errors import ConfigError, GymError, ProgramFailed
from gym.labels import ENV_TEST_SECONDS
from gym.programs import find_program, run_program
from gym.server.case_log import NO_START, CaseOutcome
from gym.server.case_rows import BadExamples, numbered_lines
from gym.server.cases import CASES, load_cases, missing_kinds
from gym.venvs import UV, bytecode_elsewhere, hypothesis_elsewhere
from gym.wire.rows import Row, fill_tools

EXAMPLE_ROWS = 5
NO_RESULT = "no result"
PYTEST_CODES = range(1, 6)  # that it ends with by itself
NO_TESTS = 5
ENTRYPOINT = "app.py"
MAKER = Path("scripts") / "examples"  # of a checkout; these are made nowhere else
EXAMPLE_RESULTS = ("data/example_rollouts.jsonl", "data/example_metrics.json")
TEST_SECONDS = 3600.0  # all tests of a server, on however busy a machine
# One of them, and one that may have to wait for sandboxes: only what hangs takes so long.
ONE_TEST_SECONDS, SANDBOX_TEST_SECONDS = 300.0, 900.0
OPTIONS = ("-q", "--tb=short", "--import-mode=importlib", "-p", "no:cacheprovider")
# Of the SDK, which who is written against nemo_gym has not. The cases are run, and shown, by themselves.
PLUGINS = ("-p", "gym.server.steady", "-p", "gym.pytest_plugin", "--no-verifier-cases")
# Tests mean the same wherever a server's folder lies: settings of a folder above it do not apply, its own do.
SETTINGS = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
NO_SETTINGS = (
    *("-c", os.devnull, "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
    *("-o", "markers=long: takes minutes", "-m", "not long and not docker"),
)


class Report(NamedTuple):
    name: str
    problems: tuple[str, ...]  # what its folder lacks
    tests: str  # pytest's own last line
    output: str  # all that pytest said, when tests failed
    seconds: float
    outcomes: tuple[CaseOutcome, ...] = ()  # of the verifier's cases
    findings: tuple[AuditFinding, ...] = ()  # of a quick audit
    hints: tuple[str, ...] = ()  # what is worth making, and no fault while it is not there

    @property
    def differing(self) -> tuple[CaseOutcome, ...]:
        return tuple(one for one in self.outcomes if not one.passed)

    @property
    def failed_checks(self) -> tuple[AuditFinding, ...]:
        return tuple(one for one in self.findings if not one.passed)

    @property
    def passed(self) -> bool:
        return not (self.problems or self.output or self.differing or self.failed_checks)


def check_server(
    entry: CatalogEntry,
    find_pytest: Callable[[CatalogEntry], Sequence[str]],
    find_python: FindPython | None = None,
    *,
    audit: bool = False,
    strict: bool = False,
) -> Report:
    """One server's folder, tests and cases; the finders give the command, and may make an environment for it.

    `strict`: the cases of a perfect policy are paid in strict mode as well.
    """
    began = time.monotonic()
    tests, output = _run_tests(entry, find_pytest)
    problems = list(find_gaps(entry))
    outcomes: tuple[CaseOutcome, ...] = ()
    findings: tuple[AuditFinding, ...] = ()
    if find_python is not None and _has_cases(entry):
        try:
            outcomes = run_verifier_cases(entry, find_python, report_row=problems.append)
            problems += _refused_fields(entry, outcomes)
            silent = any(one.is_silent for one in outcomes)  # what follows would wait for the same, often
            outcomes += run_verifier_cases(entry, find_python, strict=True) if strict and not silent else ()
            findings = audit_server(entry, find_python, quick=True) if audit and not silent else ()
        except ProgramFailed as error:
            problems.append(words_of(error))
        except GymError as error:
            problems += [str(error)] if str(error) != output else []  # that no environment can be made is said once
    seconds, hints = time.monotonic() - began, tuple(find_hints(entry))
    return Report(entry.name, tuple(problems), tests, output, seconds, outcomes, findings, hints)


def find_gaps(entry: CatalogEntry) -> Iterator[str]:
    """What every server has and this one has not."""
    for name in ("README.md", "tests", "app.py"):
        if not (entry.directory / name).exists():
            yield f"no {name}"
    if entry.config is None:
        yield "no file in configs/"
    yield from _config_problems(entry.directory)
    yield from _start_problems(entry)
    example = example_of(entry.directory)
    if example.is_file():
        yield from _row_problems(example, example.relative_to(entry.directory))
    elif entry.type == "resources_servers":
        yield f"no {EXAMPLE} with {EXAMPLE_ROWS} rows"
    if entry.type == "resources_servers" and not is_foreign(entry.directory, ENTRYPOINT):
        yield from _verifier_gaps(entry)


def find_hints(entry: CatalogEntry) -> Iterator[str]:
    """What a checkout can make of an environment that is finished."""
    if entry.type != "resources_servers" or not (entry.directory.parents[2] / MAKER).is_file():
        return
    lacking = [name for name in EXAMPLE_RESULTS if not (entry.directory / name).is_file()]
    if lacking:
        yield f"no {' and no '.join(lacking)} yet; once it is finished: {MAKER} {entry.name}"


def _verifier_gaps(entry: CatalogEntry) -> Iterator[str]:
    try:
        cases = load_cases(entry.directory / CASES)
    except BadExamples as error:
        if example_of(entry.directory) != entry.directory / EXAMPLE:  # else it is said of the rows
            yield str(error)
        return
    except GymError as error:
        yield f"no {CASES}" if not (entry.directory / CASES).is_file() else str(error)
        return
    if not any(case.oracle for case in cases):
        yield f"{CASES}: no case is an oracle's"
    for gap in missing_kinds(cases, constant=entry.kind == "example"):
        yield f"{CASES}: {gap}"


def _has_cases(entry: CatalogEntry) -> bool:
    """Those that cannot be read are among the gaps."""
    try:
        load_cases(entry.directory / CASES)
    except GymError:
        return False
    return True


def _config_problems(folder: Path) -> Iterator[str]:
    """`gym list` shows a server whose file cannot be read; here it is an error."""
    for path in sorted((folder / "configs").glob("*.y*ml")):
        try:
            read_yaml(path, str(path.relative_to(folder)))
        except GymError as error:
            yield str(error)


def _start_problems(entry: CatalogEntry) -> Iterator[str]:
    """What `gym up` would refuse of how it is started; what others of its stack lack does not matter here."""
    try:
        load_stack(_request(entry))
    except ConfigError as error:
        own = {"entrypoint", *FACTS}
        yield from (str(one) for one in error.problems if own & set(one.key.split(".")))


def _refused_fields(entry: CatalogEntry, outcomes: Sequence[CaseOutcome]) -> Iterator[str]:
    """The lines of the fields without which no case was begun."""
    said = "\n".join(dict.fromkeys(one.got for one in outcomes if one.got.startswith(NO_START)))
    with suppress(GymError):  # a config that cannot be read is reported with the other problems
        for instance in load_stack(_request(entry)).instances if said else ():
            yield from refused_lines(instance, said)


def _request(entry: CatalogEntry) -> LoadRequest:
    return LoadRequest(files=(entry.config,) if entry.config else (), environ=dict(os.environ), without_models=True)


def _row_problems(example: Path, name: Path) -> Iterator[str]:
    lines = numbered_lines(example)
    if len(lines) != EXAMPLE_ROWS:
        yield f"{name}: {len(lines)} rows, {EXAMPLE_ROWS} are asked for"
    for number, line in lines:
        if problem := _row_problem(line):
            yield f"{name}:{number}: {problem}"


def _row_problem(line: bytes) -> str:
    """Which tools a server has is known where it runs: a row that asks for those is taken."""
    try:
        row = orjson.loads(line)
        if not isinstance(row, dict):
            return "a row is a JSON object"
        Row.model_validate(fill_tools(row, tuple))
    except orjson.JSONDecodeError as error:
        return f"Invalid JSON: {error}"
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where + ': ' if where else ''}{first['msg']}"
    return ""


def _run_tests(entry: CatalogEntry, find_pytest: Callable[[CatalogEntry], Sequence[str]]) -> tuple[str, str]:
    folder = entry.directory
    if not (folder / "tests").is_dir():
        return "no tests", ""
    own = any((folder / name).is_file() for name in SETTINGS)
    plugins = () if is_foreign(folder, ENTRYPOINT) else PLUGINS
    tests = str(folder.absolute() / "tests")  # not by the working folder: where it is a link, that has another name
    options = (*OPTIONS, *plugins, *(() if own else NO_SETTINGS), f"--rootdir={folder}", tests)
    try:
        with tempfile.TemporaryDirectory() as scratch:  # tests leave nothing in the server's folder
            env = {**os.environ, **bytecode_elsewhere(os.environ), **hypothesis_elsewhere(os.environ)}
            env.setdefault(ENV_TEST_SECONDS, str(one_test_seconds(entry)))
            env[UV] = str(find_program("uv", package="uv"))
            if is_foreign(folder, ENTRYPOINT):
                env["PYTHONPATH"] = os.pathsep.join([_upstream_tree(entry, Path(scratch)), env.get("PYTHONPATH", "")])
            argv = (*find_pytest(entry), *options)
            return last_line(run_program(argv, cwd=folder, env=env, timeout=TEST_SECONDS)), ""
    except ProgramFailed as error:
        return "no tests" if error.code == NO_TESTS else last_line(error.output), _show_failed(error)
    except GymError as error:
        return "could not run", str(error)


def _show_failed(error: ProgramFailed) -> str:
    """All that pytest said; where it did not come to its end, also how its process did."""
    if not error.output.strip():
        return f"pytest: {words_of(error)}"
    if last_line(error.output) != NO_RESULT or error.code in PYTEST_CODES:
        return error.output
    return f"{error.output.rstrip()}\npytest did not come to its end: its process ended with exit code {error.code}"


def one_test_seconds(entry: CatalogEntry) -> float:
    with suppress(GymError):  # a config that cannot be read is reported with the other problems
        return SANDBOX_TEST_SECONDS if "sandbox" in own_fields(entry) else ONE_TEST_SECONDS
    return ONE_TEST_SECONDS


def _upstream_tree(entry: CatalogEntry, scratch: Path) -> str:
    """Tests of a server written against nemo_gym import it by its place in that tree: resources_servers.NAME.app."""
    (scratch / "tree" / entry.type).mkdir(parents=True)
    (scratch / "tree" / entry.type / entry.directory.name).symlink_to(entry.directory.absolute())
    return str(scratch / "tree")


def last_line(output: str) -> str:
    """`3 passed`, without the rule of signs around it and the seconds, which the table has."""
    lines = [line.strip("= ") for line in output.splitlines() if re.search(r"\d+ (passed|failed|error|skipped)", line)]
    return lines[-1].partition(" in ")[0] if lines else NO_RESULT
