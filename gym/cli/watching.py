"""`gym up --watch`: a saved file reaches its servers, and one line says so; meanwhile the servers' own logs are shown.

What cannot be taken over leaves the servers as they were: a syntax error, a configuration that is refused.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gym.cli import console
from gym.cli.console import format_duration
from gym.cli.field_places import naming_lines
from gym.cli.saved_words import describe_changes, describe_late, describe_reload, name_files
from gym.cli.server_logs import ServerLogs
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_starter import StackStarter, Started
from gym.config import StackConfig
from gym.errors import GymError, NotUp, UserError
from gym.plan import Plan
from gym.plan.plan_diff import changes_between, differs_in_sources_alone
from gym.runtime.file_watch import SavedFile, watched_folders
from gym.runtime.status import StackStatus

RECENT_SECONDS: Final = 30.0  # a file that is copied or moved may bring an older time along
NO_SOURCES: Final = ("README.md",)


def watch(starter: StackStarter, load: Callable[[], StackConfig], started: Started) -> int:
    """Until Ctrl-C, which leaves the stack up, or until the stack is stopped by another command."""
    return SourceWatch(starter, load, started).run()


class SourceWatch:
    def __init__(self, starter: StackStarter, load: Callable[[], StackConfig], started: Started) -> None:
        self._starter, self._load = starter, load
        self._plan, self._files = started
        self._logs = ServerLogs(starter.session)

    def run(self) -> int:
        console.note("watching the servers' files; Ctrl-C ends the watch and leaves the stack up (gym down stops it)")
        self._logs.follow(_names(self._plan))
        while written := self._wait():
            self._take_save(written)
            self._logs.follow(_names(self._plan))
        console.note("the stack was stopped: the watch ends")
        return 0

    def _wait(self) -> tuple[Path, ...]:
        with LIFE.hidden():
            return self._files.wait(self._logs.ended)

    def _take_save(self, written: tuple[Path, ...]) -> None:
        self._logs.hide("")
        saved, cwd = self._files.changed(), Path.cwd()
        if not saved:
            same = name_files([SavedFile(path, "saved") for path in written], cwd)
            console.note_line(f"{same} as the servers have it: nothing to do")
            return
        what, began, former = name_files(saved, cwd), _saved_at(saved), self._plan
        try:
            check_syntax(saved, self._plan)
            with console.busy(what):
                outcome = self._take_over(saved)
        except NotUp as late:
            self._files.give()
            console.note_line(f"{what}: {describe_late(late)}; it is down until a fix is saved")
            self._logs.hide(late.server)
        except GymError as error:
            self._plan = former
            console.show_error(error)
            console.note_line(f"{what}: not taken over, the servers go on as they were")
        else:
            self._files.give()
            console.note_line(f"{what}: {outcome} in {format_duration(time.time() - began)}")

    def _take_over(self, saved: tuple[SavedFile, ...]) -> str:
        """What became of it."""
        loaded = self._load()
        plan = self._starter.plan(loaded)
        prepared = self._starter.prepare(loaded, plan)
        configs = frozenset(self._starter.config_files(loaded))
        names = _owners(plan, (one.path for one in saved if one.path not in configs))
        home, runtime = self._starter.session
        former, self._plan, timeout = self._plan, plan, self._starter.timeout
        if differs_in_sources_alone(former, plan) and not any(one.path in configs for one in saved):
            if not names:
                return "no server runs from it"
            runtime.reload(home, prepared, names, _quiet, timeout=timeout)
            return describe_reload(names, built=not {*names} <= {*prepared.live})
        changes = changes_between(former, plan) or runtime.changes(home, prepared)
        self._files.look_at(watched_folders(plan), self._starter.config_files(loaded))
        with naming_lines(loaded):
            runtime.up(home, prepared, _quiet, timeout=timeout)
        left = tuple(name for name in names if name not in {one.service for one in changes if one.action != "keep"})
        if left:
            runtime.reload(home, prepared, left, _quiet, timeout=timeout)
        words = describe_changes(changes, images=runtime.name == "compose")
        return "; ".join([words, *([describe_reload(left, built=False)] if left else [])])


def check_syntax(saved: Iterable[SavedFile], plan: Plan) -> None:
    """Before a server that works is ended for one that cannot start. Another Python may know more than this one."""
    others = tuple(one.directory for one in plan.services if one.python and one.directory)
    for path, how in saved:
        if how == "removed" or path.suffix != ".py" or any(path.is_relative_to(folder) for folder in others):
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except SyntaxError as error:
            text = f": `{error.text.strip()}`" if error.text else ""
            raise UserError(f"{path}, line {error.lineno}: {error.msg}{text}", "Save a fix.") from None
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            raise UserError(f"{path} cannot be read as Python: {error}", "Save a fix.") from None


def _owners(plan: Plan, paths: Iterable[Path]) -> tuple[str, ...]:
    """The instances that run from these files."""
    sources = [path for path in paths if path.name not in NO_SOURCES]
    return tuple(
        one.name
        for one in plan.services
        if one.directory is not None and any(_is_source(path, one.directory) for path in sources)
    )


def _is_source(path: Path, folder: Path) -> bool:
    """What a configuration says is in the plan."""
    return path.is_relative_to(folder) and path.relative_to(folder).parts[0] != "configs"


def _saved_at(saved: Iterable[SavedFile]) -> float:
    """When the last of them was written; now, where no file says so."""
    now = time.time()
    times = [one.path.stat().st_mtime for one in saved if one.path.is_file()]
    return next((one for one in sorted(times, reverse=True) if 0 <= now - one <= RECENT_SECONDS), now)


def _names(plan: Plan) -> tuple[str, ...]:
    return tuple(one.name for one in plan.services)


def _quiet(status: StackStatus) -> None:
    """One line tells of a save, at its end."""
