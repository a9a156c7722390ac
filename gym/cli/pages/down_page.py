"""What `gym down` does with one stack; no parser is loaded for it, and of the runtime what stops containers."""

from __future__ import annotations

from pathlib import Path

from gym.cli import console
from gym.cli.stack_session import find_home, make_runtime
from gym.labels import DEFAULT_STACK
from gym.runtime.results_folder import folder_of
from gym.runtime.runtime_names import RuntimeName


def show(stack: str = DEFAULT_STACK) -> int:
    return stop(*find_home(stack))


def stop(home: Path, runtime: RuntimeName) -> int:
    with console.busy(f"stopping stack '{home.name}'"):
        stopped = stop_all_of(home, runtime)
    console.note(_words(home, stopped))
    return 0


def stop_all_of(home: Path, runtime: RuntimeName) -> bool:
    """True when anything ran."""
    if runtime == "compose":
        from gym.runtime.compose.stack_removal import down  # noqa: PLC0415  (a fifth of what its runtime takes)

        return down(home)
    return make_runtime(runtime).down(home)


def _words(home: Path, stopped: bool) -> str:
    there = folder_of(home)
    where = "" if Path.cwd().is_relative_to(there) else f" of {there}"
    return f"Stopped stack '{home.name}'{where}." if stopped else f"Nothing of stack '{home.name}'{where} was running."
