"""Which stack a command means: its folder, its runtime, and what the user asked to be loaded."""

from __future__ import annotations

import contextlib
import difflib
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from gym.cli import console
from gym.cli.typed_stack import TypedStack
from gym.errors import InfraError, UserError
from gym.files import read_document
from gym.runtime.local.home import prepare_home
from gym.runtime.results_folder import STATE_DIR
from gym.runtime.runtime_names import (
    ENGINES,
    SESSION_FILE,
    EngineChoice,
    RuntimeName,
    read_choice,
    write_choice,
)
from gym.runtime.user_state import remember_home
from gym.wire.stack_names import SANDBOX_NOTES

if TYPE_CHECKING:
    from gym.runtime.protocol import Runtime
    from gym.runtime.stack_list import FoundStack
    from gym.runtime.status import StackStatus
    from gym.wire.stack_notes import SandboxNotes


class StackSession(NamedTuple):
    """A stack that was started: where its state is, and the runtime that holds it."""

    home: Path
    runtime: Runtime


def home_here(stack: str) -> Path:
    """Where `gym up` keeps a stack's state: below the working directory."""
    return home_in(Path.cwd(), stack)


def home_in(folder: Path, stack: str) -> Path:
    return folder / STATE_DIR / stack


def open_session(
    stack: str,
    choice: EngineChoice,
    overrides: tuple[Path, ...] = (),
    locked: Path | None = None,
    *,
    live: bool = False,
) -> StackSession:
    """The stack's folder here, private to its owner, with a note of the runtime that will hold it."""
    home = home_here(stack)
    held = read_choice(home)
    chosen = make_runtime(choice.runtime, overrides, locked, live=live)
    if held and held[:2] != choice[:2] and has_stack(held.runtime, home):
        raise UserError(
            f"Stack '{stack}' runs on {_words(held)} already.",
            f"Stop it first (gym down --stack {stack}), or give this one another name.",
        )
    prepare_home(home)
    write_choice(home, choice)
    remember_home(home, stack, choice.runtime)
    return StackSession(home, chosen)


def has_stack(runtime: RuntimeName, home: Path) -> bool:
    """What an engine that does not answer would say cannot be waited for: `--runtime local` is the way without one."""
    try:
        return make_runtime(runtime).status(home) is not None
    except InfraError:
        return False


def find_session(stack: str) -> StackSession:
    home, runtime = find_home(stack)
    return StackSession(home, make_runtime(runtime))


def find_home(stack: str) -> tuple[Path, RuntimeName]:
    """Of the stack of that name in this folder or the nearest one above, as git finds a repository."""
    cwd = Path.cwd()
    for folder in (cwd, *cwd.parents):
        home = home_in(folder, stack)
        if choice := read_choice(home):
            return home, choice.runtime
    running_ones = _all_of_mine()
    found = [one for one in running_ones if one.stack == stack]
    if len(found) == 1 and isinstance(stack, TypedStack):
        return found[0].home, found[0].runtime
    others = sorted({found.parent.name for found in cwd.glob(f"{STATE_DIR}/*/{SESSION_FILE}")})
    known = f" Known here: {', '.join(others)} (name one with --stack)." if others else ""
    raise UserError(
        f"No stack '{stack}' in {cwd} or any folder above it.{known}{_where(found)}",
        _way_there(stack, found, running_ones),
    )


def _all_of_mine() -> tuple[FoundStack, ...]:
    from gym.runtime.stack_list import list_stacks  # noqa: PLC0415 (who is in the stack's folder need not ask the engine)

    return list_stacks().stacks


def _where(found: list[FoundStack]) -> str:
    """` One runs in /home/ada/eval (compose, port 11000).`"""
    places = [f"{one.folder} ({one.runtime}{f', port {one.port}' if one.port else ''})" for one in found]
    if not places:
        return ""
    return f" One runs in {places[0]}." if len(places) == 1 else f" {len(places)} run: {'; '.join(places)}."


def _way_there(stack: str, found: list[FoundStack], running_ones: tuple[FoundStack, ...]) -> str:
    if not found:
        names = sorted({one.stack for one in running_ones})
        near = difflib.get_close_matches(stack, names, n=1) if isinstance(stack, TypedStack) else ()
        start = "Start one: gym up simple_weather --model scripted"
        if near:
            return f"Did you mean --stack {near[0]}? `gym ls` shows all of yours."
        return f"{start}; or name one of yours that runs, with --stack: {', '.join(names)}" if names else start
    if len(found) == 1:
        return f"Go there (cd {found[0].folder}), or name it from here: --stack {found[0].stack}"
    return "Go to its folder, or stop it from here: gym down --folder FOLDER. `gym ls` shows all of yours."


def running(home: Path, runtime: RuntimeName) -> StackStatus:
    if not home.is_dir():
        raise UserError(f"{home} is gone, and its stack still runs.", "Stop it: gym down --stack NAME")
    status = _status(home, runtime)
    if status is None:
        raise UserError(f"The stack of {home} does not run.", "Start it: gym up NAMES")
    return status


def _status(home: Path, runtime: RuntimeName) -> StackStatus | None:
    if runtime == "compose":
        from gym.runtime.compose.stack_status import read_status  # noqa: PLC0415  (a fifth of what its runtime takes)

        return read_status(home)
    return make_runtime(runtime).status(home)


def strict_verifiers(home: Path) -> tuple[str, ...]:
    """Those in their strict mode, as the stack itself tells."""
    for path in (home / "discovery.json", home / "discovery" / "discovery.json"):
        with contextlib.suppress(OSError, ValueError, LookupError):
            found = orjson.loads(path.read_bytes())["instances"]
            return tuple(name for name, one in found.items() if one.get("strict"))
    return ()


def sandboxes_of(home: Path) -> SandboxNotes | None:
    """What the stack's broker wrote a moment ago; None where there is none, or it writes no more."""
    if not (home / "notes" / SANDBOX_NOTES).exists():
        return None
    from gym.wire.stack_notes import SandboxNotes  # noqa: PLC0415  (pydantic, for those that have a broker)

    found = read_document(SandboxNotes, home / "notes" / SANDBOX_NOTES)
    return None if found is None or found.is_stale(time.time()) else found


def router_of(stack: str) -> str:
    """Where the stack that runs here answers. Shows replicas that are not healthy: callers would wait for them."""
    status = running(*find_home(stack))
    for line in unhealthy_replicas(status):
        console.note(line, style="yellow")
    if not status.router:
        raise UserError(f"The router of stack '{stack}' does not run.", "How the stack is: gym ps")
    return status.router


def unhealthy_replicas(status: StackStatus) -> list[str]:
    """A line for each replica that is not healthy."""
    unhealthy = [one for one in status.replicas if one.state != "healthy"]
    return [
        f"{one.replica} is {one.state}{f' ({one.detail})' if one.detail else ''}: gym logs {one.instance}"
        for one in unhealthy
    ]


def make_runtime(
    name: RuntimeName, overrides: tuple[Path, ...] = (), locked: Path | None = None, *, live: bool = False
) -> Runtime:
    """`overrides` are Compose files of the user's own, `locked` what `gym lock` wrote; `live`: its servers' files are
    watched."""
    if name == "compose":
        from gym.runtime.compose.compose_runtime import ComposeRuntime  # noqa: PLC0415  (a stack has one runtime)

        return ComposeRuntime(overrides, locked=locked, live=live and locked is None)
    if locked:
        raise UserError(
            "--locked is about images, and the local runtime has none.", "Leave it out, or --runtime compose."
        )
    if overrides:
        raise UserError(
            "-f names Compose files, and this stack uses no Compose.", "Leave it out, or --runtime compose."
        )
    if name == "ray":
        from gym.runtime.ray_cluster.ray_runtime import RayRuntime  # noqa: PLC0415  (as above)

        return RayRuntime()
    if name == "slurm":
        from gym.runtime.slurm.slurm_runtime import SlurmRuntime  # noqa: PLC0415  (as above)

        return SlurmRuntime()
    if name == "swarm":
        from gym.runtime.swarm.swarm_runtime import SwarmRuntime  # noqa: PLC0415  (as above)

        return SwarmRuntime()
    from gym.runtime.local.local_runtime import LocalRuntime  # noqa: PLC0415  (as above)

    return LocalRuntime()


def sweep_leftovers() -> tuple[str, ...]:
    """Every container of every stack of this user goes; the homes of those stacks."""
    from gym.runtime.compose.compose_runtime import ComposeRuntime  # noqa: PLC0415  (as below)

    return ComposeRuntime().sweep()


def choose_engine(on: str) -> EngineChoice:
    """What `--on` names: an engine, or `ENGINE://HOST:PORT`."""
    word, separator, _ = on.partition("://")
    for name in ENGINES:
        if name == word:
            return EngineChoice(name, on if separator else "")
    raise UserError(
        f"--on {on}: no such engine.", f"One of: {', '.join(ENGINES)}. This machine: --runtime compose|local"
    )


def choose_runtime(wanted: RuntimeName | None) -> tuple[RuntimeName, str]:
    """The runtime's name and one line on why: what was asked for, else compose when an engine answers, else local."""
    if wanted:
        return wanted, f"runtime: {wanted}"
    from gym.engine import find_engine  # noqa: PLC0415  (as below)

    facts = find_engine()
    if isinstance(facts, InfraError):
        return "local", f"runtime: local, each server a process on this machine ({facts.what.rstrip('.')})"
    return "compose", f"runtime: compose (engine {facts.version}; --runtime local runs processes instead)"


def _words(choice: EngineChoice) -> str:
    return f"the {choice.runtime} runtime{f' at {choice.address}' if choice.address else ''}"
