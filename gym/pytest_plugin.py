"""The pytest plug-in for a server's own tests: `gym test` loads it, and pytest itself where compose-gym is installed.

In the `tests` folder of a server its modules and those of the tests are importable, `app` and `rows` are fixtures,
every case of `data/verifier_cases.jsonl` is a test, and what is marked `docker` is left out where no engine answers.
Elsewhere it does nothing, and imports nothing.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gym.runtime.trial_broker import TrialAccess
    from gym.server.base import ServerApp
    from gym.server.case_log import CaseOutcome
    from gym.server.cases import Case
    from gym.server.testing import Rows
    from gym.testing import GymStack

NO_CASES = "--no-verifier-cases"
ENTRYPOINT = "app.py"
ROWS = Path("data") / "example.jsonl"
CASES = Path("data") / "verifier_cases.jsonl"
MAX_SECONDS = "GYM_TEST_SECONDS"  # of one test, which `gym test` sets: labels.ENV_TEST_SECONDS, without its import
SPARE_SECONDS = 30.0
STDERR = pytest.StashKey[int]()


@pytest.fixture
def app(request: pytest.FixtureRequest) -> ServerApp:
    """The server's app with the settings of its own configuration, not started: `async with running(app) as url`."""
    from gym.errors import GymError  # noqa: PLC0415 (as below)

    try:
        return configured_app(folder_of(request.path))
    except GymError as error:  # it names the file and the line: the way through this plug-in says nothing
        why = str(error)
    pytest.fail(why, pytrace=False)


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> Rows:
    """The example rows, with the server's own tools where they ask for those."""
    from gym.errors import GymError  # noqa: PLC0415 (as below: who tests something else pays nothing)
    from gym.server.case_rows import read_lines  # noqa: PLC0415
    from gym.wire.rows import fill_tools  # noqa: PLC0415

    folder = folder_of(request.path)
    try:
        return [fill_tools(row, lambda: own_tools(folder)) for row in read_lines(folder / ROWS)]
    except GymError as error:
        why = str(error)
    pytest.fail(why, pytrace=False)


@pytest.fixture(scope="module")
def gym_stack() -> Iterator[StackStarts]:
    """`gym_stack("mcqa", model="scripted")`: a started GymStack; the same words mean the same one in a module."""
    starts = StackStarts()
    yield starts
    starts.stop()


@pytest.fixture(scope="module")
def sandbox_broker() -> Iterator[Callable[..., TrialAccess]]:
    """`sandbox_broker()`: a broker with real sandboxes, for `MyServer.app(fields, name=..., **broker.settings)`.

    `provider` is which sandboxes; other options are the grant's, as in a configuration.
    """
    from gym.runtime.trial_broker import trial_broker  # noqa: PLC0415

    with ExitStack() as brokers:
        started: dict[str, TrialAccess] = {}

        def start(provider: str = "subprocess", **grant: Any) -> TrialAccess:
            key = repr((provider, sorted(grant.items())))
            if key not in started:
                full = {"images": ["*"], "warm": 0, **grant}
                started[key] = brokers.enter_context(trial_broker(full, provider))
            return started[key]

        yield start


class StackStarts:
    def __init__(self) -> None:
        self._stacks: dict[tuple[Any, ...], GymStack] = {}

    def __call__(self, *words: str, **options: Any) -> GymStack:
        from gym.testing import GymStack  # noqa: PLC0415

        key = (words, *sorted(options.items()))
        if key not in self._stacks:
            self._stacks[key] = GymStack(*words, **options).start()
        return self._stacks[key]

    def logs(self) -> Iterator[tuple[str, str]]:
        yield from ((" ".join(map(str, words)), one.get_logs()) for (words, *_), one in self._stacks.items())

    def stop(self) -> None:
        while self._stacks:
            self._stacks.popitem()[1].stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what its stacks wrote."""
    report = yield
    starts = getattr(item, "funcargs", {}).get("gym_stack")
    if report.failed and isinstance(starts, StackStarts):
        report.sections += [(f"gym logs of {name}", text) for name, text in starts.logs()]
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(NO_CASES, action="store_true", help="Leave out the cases of a server's data/verifier_cases.jsonl.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "docker: needs a container engine")
    if max_seconds():
        config.stash[STDERR] = os.dup(2)  # while a test runs, 2 is what pytest catches


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What lets no Python run, as a search by a pattern that goes on for ever, ends all tests with its stacks."""
    if not max_seconds():
        return (yield)
    faulthandler.dump_traceback_later(max_seconds() + SPARE_SECONDS, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that hangs fails where it is, and is the last one: others are likely to wait for the same."""
    if not max_seconds():
        return (yield)

    def give_up(_number: int, _frame: FrameType | None) -> None:
        item.session.shouldstop = f"{item.name} did not end, so no other test was run"
        pytest.fail(f"{item.name} had not ended after {max_seconds():g} s", pytrace=False)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, max_seconds())
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def max_seconds() -> float:
    """0: as long as it takes."""
    return float(os.environ.get(MAX_SECONDS, 0))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """In CI a test that needs an engine fails without one."""
    if item.get_closest_marker("docker") and is_of_a_server(item.path.parent) and not os.environ.get("CI"):
        from gym.errors import GymError  # noqa: PLC0415

        try:
            from gym.runtime.compose import require_engine  # noqa: PLC0415

            require_engine()
        except (GymError, ImportError) as error:
            pytest.skip(f"no container engine: {error}")


def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Directory) and is_of_a_server(collector.path):
        sys.path[:0] = [str(collector.path.parent), str(collector.path)]  # what helps its tests lies beside them


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The cases come behind what lies in the folder."""
    report = yield
    if isinstance(collector, pytest.Directory) and is_of_a_server(collector.path) and report.passed:
        path = collector.path.parent / CASES
        if path.is_file() and not collector.config.getoption(NO_CASES):
            report.result = [*report.result, CaseFile.from_parent(collector, path=path)]
    return report


class CaseFile(pytest.File):
    """All cases run when the first outcome is asked for, since those with the same settings share an app."""

    outcomes: dict[str, CaseOutcome] | None = None

    def collect(self) -> Iterator[pytest.Item]:
        from gym.server.cases import load_cases  # noqa: PLC0415

        for case in load_cases(self.path):
            yield CaseTest.from_parent(self, name=case.name, case=case)

    def outcome(self, name: str) -> CaseOutcome:
        from gym.server.cases import run_cases  # noqa: PLC0415

        if self.outcomes is None:
            folder = self.path.parents[1]
            cases = [item.case for item in self.session.items if isinstance(item, CaseTest) and item.parent is self]
            found = asyncio.run(run_cases(configured_app(folder), folder.name, own_settings(folder), cases))
            self.outcomes = {one.name: one for one in found}
        return self.outcomes[name]


class CaseTest(pytest.Item):
    def __init__(self, *, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case

    def runtest(self) -> None:
        assert isinstance(self.parent, CaseFile)
        if needs_sandbox(self.path.parents[1]):
            pytest.skip("it needs a sandbox: `gym test` brings one")
        if needs_services(self.path.parents[1]):
            pytest.skip("it needs the services of its configuration: `gym test` brings them")
        outcome = self.parent.outcome(self.name)
        if not outcome.passed:
            raise CaseDiffers(f"expected {outcome.expected}, got {outcome.got}: {outcome.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, CaseDiffers) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class CaseDiffers(AssertionError):
    """A verifier did not say what its case expects."""


def is_of_a_server(path: Path) -> bool:
    """One of this SDK: it has an app and configurations, and is not written against nemo_gym."""
    folder = path.parent
    if path.name != "tests" or not (folder / ENTRYPOINT).is_file() or not (folder / "configs").is_dir():
        return False
    from gym.config import is_foreign  # noqa: PLC0415

    return not is_foreign(folder, ENTRYPOINT)


def folder_of(path: Path) -> Path:
    return next(one for one in path.parents if (one / ENTRYPOINT).is_file())


def configured_app(folder: Path) -> ServerApp:
    from gym.server.serve import load_app  # noqa: PLC0415

    loaded: ServerApp = load_app(folder / ENTRYPOINT)
    return loaded.configured(own_settings(folder), name=folder.name)


def own_tools(folder: Path) -> list[dict[str, Any]]:
    from gym.server.config import Settings  # noqa: PLC0415
    from gym.server.offered_tools import tools_of  # noqa: PLC0415
    from gym.server.serve import load_app  # noqa: PLC0415

    loaded: ServerApp = load_app(folder / ENTRYPOINT)
    return tools_of(loaded.make(Settings(name=folder.name, fields=own_settings(folder))))


def own_settings(folder: Path) -> dict[str, Any]:
    from gym.data.row_servers import known_fields  # noqa: PLC0415

    return known_fields(written_fields(folder))


def needs_sandbox(folder: Path) -> bool:
    from gym.labels import ENV_SANDBOX_URL  # noqa: PLC0415

    return "sandbox" in written_fields(folder) and not os.environ.get(ENV_SANDBOX_URL)


def needs_services(folder: Path) -> bool:
    from gym.config.late_references import find_services  # noqa: PLC0415

    return any(find_services(written_fields(folder)))


def written_fields(folder: Path) -> dict[str, Any]:
    """What the server's configuration says of it."""
    from gym.config import find_server, own_fields  # noqa: PLC0415

    return own_fields(find_server(folder.name, [folder]))
