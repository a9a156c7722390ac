"""A patch in, a verdict out: a fresh sandbox without network, the tests put in after the patch, under our runner.

What goes wrong with a sandbox is raised and never scored. What the patch did is scored.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson
from controls import Control, make_controls, spoil
from installing import ACTIVATE
from reports import Run, Statuses, Verdict, judge, nothing_passed, parser_of, read_records, through_parser
from repository import Repository
from task_sandboxes import TaskSandboxes
from tasks import Task, files_with_tests

from gym.sandbox.work_tools import find_shell
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult

RUNNER: Final = Path(__file__).parent / "inside" / "run_pytest.py"
MAX_LOG: Final = 16 << 20
SHARE_OF_TIME: Final = 0.5  # the gold patch has to need less, before a timeout is a patch's own fault
FIND_PYTHON: Final = """
for one in "$GYM_PYTHON" python3 /usr/bin/python3 python; do
  # Not from the repository, whose modules would stand before those of the interpreter.
  if [ -n "$one" ] && (cd / && "$one" -c 'import pytest') 2>/dev/null; then exec "$one" "$1"; fi
done
echo 'no python here has pytest' >&2
exit 127
"""
CLEAN: Final = {"PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSTARTUP": ""}
SHELL_TESTS: Final = {
    "django/django": "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
}


@dataclass
class Grade:
    """What becomes fields of the reply."""

    reward: float
    reason: str = ""
    applied: bool = False
    tests: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    seconds: float = 0.0


class Slow(Exception):
    """The tests did not end in their time or memory, or in any sandbox."""

    def __init__(self, what: str, grade: Grade) -> None:
        super().__init__(what)
        self.grade = grade


class Lost(RolloutError):
    """The sandbox went while the tests ran in it."""


class Grader:
    def __init__(self, sandboxes: TaskSandboxes, *, timeout: float, python: str = "", look_again: bool = True) -> None:
        self._sandboxes = sandboxes
        self._timeout = timeout
        self._python = python
        self._looks_again = look_again
        self._gold_seconds: dict[str, float] = {}

    async def grade(self, task: Task, patch: str, rollout: str, *, loosely: bool) -> Grade:
        if not task.FAIL_TO_PASS:
            raise RolloutError("row", "FAIL_TO_PASS is empty: nothing could show that the issue is resolved")
        if not patch.strip():
            return Grade(0.0, "the patch is empty", tests=nothing_passed(task))
        try:
            grade = await self._try_twice(task, patch, rollout, loosely=loosely)
            if grade.reward and task.controls and self._looks_again and shell_command(task) is None:
                return await self._check_for_forgery(task, patch, rollout, grade, loosely=loosely)
            return grade
        except Slow as slow:
            return await self._blame(task, slow, rollout)

    async def _try_twice(self, task: Task, patch: str, rollout: str, *, loosely: bool) -> Grade:
        """Once a sandbox is lost by accident; twice it may be by what ran in it, as the gold patch tells."""
        try:
            return await self._try(task, patch, rollout, loosely=loosely)
        except Lost:
            pass
        try:
            return await self._try(task, patch, rollout, loosely=loosely)
        except Lost as lost:
            if not task.patch:
                raise
            grade = Grade(0.0, applied=True, tests=nothing_passed(task))
            raise Slow(f"the tests lost two sandboxes ({lost.message})", grade) from None

    async def _check_for_forgery(self, task: Task, patch: str, rollout: str, first: Grade, *, loosely: bool) -> Grade:
        """In another fresh sandbox the tests that were to pass are made to fail, under their own names: a patch that
        knows which outcomes are asked for forges them here too."""
        try:
            check = await self._try(task, patch, rollout, loosely=loosely, forgery=True)
        except Lost as lost:
            raise RolloutError("sandbox", lost.message, server=lost.server) from None
        first.seconds += check.seconds
        if not check.reward:
            first.reward, first.reason, first.tests = 0.0, check.reason, nothing_passed(task)
        return first

    async def _blame(self, task: Task, slow: Slow, rollout: str) -> Grade:
        """The patch is to blame when the gold patch passes well within the limits; else the cause is unknown."""
        if not task.patch:
            raise RolloutError("timeout", f"{slow}, and the row has no gold patch to compare with") from None
        limit = (task.eval_timeout or self._timeout) * SHARE_OF_TIME
        key = f"{task.instance_id} {hash(task.patch)}"
        if key not in self._gold_seconds:
            try:
                gold = await self._try(task, task.patch, rollout, loosely=False)
            except Slow as too:
                raise RolloutError("timeout", f"{too}, with the gold patch too: raise eval_timeout or memory") from None
            if not gold.reward:
                raise RolloutError("row", f"the gold patch itself fails: {gold.reason}")
            self._gold_seconds[key] = gold.seconds
        if self._gold_seconds[key] > limit:
            took = f"the gold patch takes {self._gold_seconds[key]:.0f} s itself"
            raise RolloutError("timeout", f"{slow}, and {took}: raise eval_timeout") from None
        slow.grade.reason = f"{slow}; with the gold patch they take {self._gold_seconds[key]:.1f} s"
        return slow.grade

    async def _try(self, task: Task, patch: str, rollout: str, *, loosely: bool, forgery: bool = False) -> Grade:
        repository = await self._sandboxes.open_repository(task, "grading", rollout)
        try:
            return await self._try_in(repository, task, patch, loosely=loosely, forgery=forgery)
        finally:
            await repository.sandbox.delete()

    async def _try_in(self, repository: Repository, task: Task, patch: str, *, loosely: bool, forgery: bool) -> Grade:
        if task.test_patch and not await repository.fits(task.test_patch):
            raise RolloutError("row", "test_patch does not apply to base_commit")
        if said := await repository.apply(patch, loosely=loosely):
            if await repository.is_full():
                raise Slow("no disk was left for the patch", Grade(0.0, tests=nothing_passed(task)))
            return Grade(0.0, f"the patch does not apply: {said}", tests=nothing_passed(task))
        grade = Grade(0.0, applied=True, tests=nothing_passed(task))
        grade.restored = await repository.restore_protected(task)
        if task.test_patch and (said := await repository.apply(task.test_patch, loosely=False)):
            grade.reason = f"the tests cannot be put beside the patch: {said}"
            return grade
        if command := shell_command(task):
            return await self._run_shell(repository, task, command, grade)
        return await self._run_pytest(repository, task, grade, forgery=forgery)

    async def _run_pytest(self, repository: Repository, task: Task, grade: Grade, *, forgery: bool) -> Grade:
        files = await repository.existing(files_with_tests(task))
        texts = await repository.texts(files) if task.controls else {}
        wanted = {name.partition("[")[0] for name in task.FAIL_TO_PASS}
        controls = (
            {path: spoil(path, text, wanted) for path, text in texts.items()} if forgery else make_controls(texts)
        )
        if forgery and not any(control.ids for control in controls.values()):
            return replace(grade, reward=1.0)
        for path, control in controls.items():
            await repository.sandbox.put(f"{repository.folder}/{path}", control.text)
        runner, word = f"{repository.desk}/{secrets.token_hex(6)}.py", secrets.token_hex(16)
        await repository.sandbox.put(runner, RUNNER.read_bytes())
        asked = {"word": word, "folder": repository.folder, "arguments": pytest_arguments(task, files)}
        result = await self._exec(repository, task, ACTIVATE + FIND_PYTHON, runner, stdin=orjson.dumps(asked))
        run = read_records(result.stdout.data, word)
        return self._conclude(task, result, run, grade, tuple(controls.values()), forgery=forgery)

    def _conclude(
        self, task: Task, result: ExecResult, run: Run, grade: Grade, controls: tuple[Control, ...], *, forgery: bool
    ) -> Grade:
        grade.seconds = result.seconds
        if not run.started and result.timed_out:
            raise RolloutError("timeout", f"pytest had not even started after {result.seconds:.0f} s")
        if not run.started:
            said = result.stderr.text.strip()[-300:] or f"exit code {result.exit_code}"
            raise RolloutError("sandbox", f"pytest did not start: {said}", retryable=False)
        if result.timed_out or (result.oom and not run.complete):
            raise Slow("the tests ran out of " + ("time" if result.timed_out else "memory"), grade)
        if result.stdout.dropped or not run.complete or run.exit_code != result.exit_code:
            grade.reason = "the test run did not come to its own end"
            return grade
        if not believable(run.statuses, controls, selected=selects(task)):
            grade.reason = "tests that must fail did not: outcomes are not to be believed"
            return grade
        if forgery:
            return replace(grade, reward=1.0)
        verdict = judge(task, through_parser(run.statuses, parser_of(task)))
        why = next((f"{name}: {run.reasons[name]}" for name in verdict.failed if run.reasons.get(name)), "")
        return self._score(verdict, grade, why)

    def _score(self, verdict: Verdict, grade: Grade, why: str = "") -> Grade:
        grade.tests = verdict.tests
        grade.reward = float(verdict.resolved)
        grade.reason = f"{verdict.reason}\n{why[:600]}".strip() if verdict.reason else ""
        return grade

    async def _run_shell(self, repository: Repository, task: Task, command: str, grade: Grade) -> Grade:
        """Of a runner that only writes a log: what the patch prints stands there too, so its exit code has to agree."""
        parser = parser_of(task)
        if parser is None:
            raise RolloutError("row", "test_command is not pytest's: the row needs a `log_parser`")
        result = await self._exec(repository, task, f"{ACTIVATE}\n( {command}\n) 2>&1")
        grade.seconds = result.seconds
        if result.timed_out or result.oom:
            raise Slow("the tests ran out of " + ("time" if result.timed_out else "memory"), grade)
        statuses: Statuses = parser(result.stdout.text)
        if result.exit_code != 0 and not any(status in ("FAILED", "ERROR") for status in statuses.values()):
            grade.reason = f"the tests ended with {result.exit_code}, and their log tells of no failure"
            return grade
        return self._score(judge(task, statuses), grade)

    async def _exec(
        self, repository: Repository, task: Task, script: str, *arguments: str, stdin: bytes = b""
    ) -> ExecResult:
        shell = await find_shell(repository.sandbox)
        try:
            return await repository.sandbox.exec(
                [shell, "-c", script, "tests", *arguments],
                cwd=repository.folder,
                env={**CLEAN, "GYM_PYTHON": self._python},
                stdin=stdin,
                timeout=task.eval_timeout or self._timeout,
                max_output=MAX_LOG,
                kill_leftovers=True,
            )
        except RolloutError as error:
            if error.kind != "sandbox" or not error.retryable:
                raise
            raise Lost("sandbox", error.message, server=error.server) from None


def believable(statuses: Statuses, controls: Iterable[Control], *, selected: bool = False) -> bool:
    """Every control failed, as far as its original ran; and controls count for nothing else."""
    files = {name.partition("::")[0] for name in statuses if "::" in name}
    believed = True
    for control in controls:
        for name, original in control.ids.items():
            ours, theirs = _statuses_of(statuses, name), _statuses_of(statuses, original)
            ran = bool(theirs) if original else name.partition("::")[0] in files
            skipped = set(theirs.values()) == {"SKIPPED"} == set(ours.values())
            failed = bool(ours) and set(ours.values()) <= {"FAILED", "ERROR"}
            believed = believed and (failed or skipped or (not ours and (selected or not ran)))
    for control in controls:
        for name in [one for own in control.ids for one in _statuses_of(statuses, own)]:
            statuses.pop(name, None)
    return believed


def _statuses_of(statuses: Statuses, name: str) -> Statuses:
    """Of a test, whatever its parameters."""
    return {one: status for one, status in statuses.items() if one == name or one.startswith(f"{name}[")}


def selects(task: Task) -> bool:
    """True when the row's command names the tests to run, and so runs no others."""
    words = shlex.split(task.test_command or "")
    return any("::" in word or word.startswith(("-k", "--deselect")) for word in words)


def shell_command(task: Task) -> str | None:
    """None where pytest runs the tests, and so our runner does."""
    if task.eval_script:
        return task.eval_script
    command = task.test_command or SHELL_TESTS.get(task.repo)
    if command is None or "pytest" in shlex.split(command):
        return None
    if task.test_command:
        return command
    labels = files_with_tests(task)
    if task.repo == "django/django":
        labels = tuple(one.removeprefix("tests/").removesuffix(".py").replace("/", ".") for one in labels)
    return f"{command} {shlex.join(labels)}"


def pytest_arguments(task: Task, files: tuple[str, ...]) -> list[str]:
    words = shlex.split(task.test_command or "pytest")
    own = words[words.index("pytest") + 1 :]
    named = any(word.endswith(".py") or "::" in word for word in own)
    return ["-p", "no:cacheprovider", *own, "--maxfail=0", *(() if named else files)]


def report_of(task: Task, grade: Grade, patch: str) -> Mapping[str, Any]:
    """As swebench writes it."""
    report = {
        "patch_is_None": False,
        "patch_exists": bool(patch.strip()),
        "patch_successfully_applied": grade.applied,
        "resolved": bool(grade.reward),
        "tests_status": grade.tests,
    }
    return {task.instance_id or "instance": report}
