"""`X_run.json`: the run and the stack of the files. A resume of another one is refused, with what differs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym import __version__
from gym.collect.provenance import differences, digest_stack
from gym.collect.result_file import write_result
from gym.errors import UserError
from gym.files import read_object


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """X.jsonl and what lies beside it."""

    rollouts: Path
    failures: Path
    materialized: Path
    metrics: Path
    run: Path

    @classmethod
    def beside(cls, output: Path) -> OutputPaths:
        stem = output.with_suffix("") if output.suffix == ".jsonl" else output
        names = ("_failures.jsonl", "_materialized_inputs.jsonl", "_aggregate_metrics.json", "_run.json")
        return cls(output, *(stem.with_name(stem.name + name) for name in names))

    def all(self) -> tuple[Path, ...]:
        return (self.rollouts, self.failures, self.materialized, self.metrics, self.run)


@dataclass(frozen=True, slots=True)
class StackOfRun:
    """The stack that a run is about to use: the digest of each instance."""

    instances: Mapping[str, str] = field(default_factory=dict)
    accept_changes: bool = False
    strict: tuple[str, ...] = ()  # verifiers in their strict mode
    images: Mapping[str, str] = field(default_factory=dict)  # digests of packed images, by instance
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what the instances are set to


def check_sidecar(paths: OutputPaths, identity: Mapping[str, Any], size: int, stack: StackOfRun) -> list[str]:
    """Writes the current state and returns notices for a person. `size` is that of the rollouts."""
    earlier = _read(paths, identity, size)
    _check_identity(paths, earlier["identity"], identity)
    allowed = stack.accept_changes or not size  # failures alone leave no rollouts to mix
    stacks, notices = _next_stacks(paths, earlier.get("stacks") or [], stack, allowed=allowed)
    now = {**earlier, "pid": os.getpid(), "gym": __version__, "stacks": stacks}
    write_result(paths.run, orjson.dumps(now, option=orjson.OPT_INDENT_2))
    return notices


def read_queue(paths: OutputPaths) -> dict[str, str]:
    """Which collector of which queue the rollouts are of; empty where they are of none."""
    found = read_object(paths.run).get("queue")
    return found if isinstance(found, dict) else {}


def note_queue(paths: OutputPaths, queue: Mapping[str, str]) -> None:
    """The address is not written: it may hold a password."""
    now = {**orjson.loads(paths.run.read_bytes()), "queue": dict(queue)}
    write_result(paths.run, orjson.dumps(now, option=orjson.OPT_INDENT_2))


def has_only_failures_of_another_run(paths: OutputPaths, identity: Mapping[str, Any], size: int) -> bool:
    """Then the run starts over: failures alone bind no options, as rollouts would."""
    if size or not (paths.failures.exists() and paths.failures.stat().st_size):
        return False
    try:
        return bool(orjson.loads(paths.run.read_bytes())["identity"] != dict(identity))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read(paths: OutputPaths, identity: Mapping[str, Any], size: int) -> dict[str, Any]:
    if not size and not (paths.failures.exists() and paths.failures.stat().st_size):
        return {"created": _now(), "identity": dict(identity)}  # an empty run binds no later one
    try:
        earlier: dict[str, Any] = orjson.loads(paths.run.read_bytes())
        for part in (earlier["identity"], *(one["instances"] for one in earlier.get("stacks") or ())):
            part.keys()
    except FileNotFoundError:
        if size:
            raise UserError(
                f"{paths.rollouts} holds rollouts, but {paths.run.name}, which describes their run, is missing",
                "choose another -o, or add --fresh to move the old file aside",
            ) from None
        return {"created": _now(), "identity": dict(identity)}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{paths.run} cannot be read", "add --fresh to move the old files aside") from None
    return earlier


def _check_identity(paths: OutputPaths, before: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    keys = sorted(before.keys() | identity.keys())
    shown = [(key, _show(before, key), _show(identity, key)) for key in keys]
    differ = [
        f"{key}: {then} then, {now} now" if key != "data" else "data: other rows than then"
        for key, then, now in shown
        if then != now
    ]
    if differ:
        raise UserError(
            f"{paths.rollouts} was collected with other options\n    " + "\n    ".join(differ),
            "use the same options to resume, choose another -o, or add --fresh to move the old files aside",
        )


def _next_stacks(
    paths: OutputPaths, stacks: list[dict[str, Any]], stack: StackOfRun, *, allowed: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """The stacks that the rollouts come from, oldest first; the last one is the one of now."""
    instances = stack.instances
    before: dict[str, str] = stacks[-1]["instances"] if stacks else {}
    if before == instances:
        return stacks, []
    settings = stacks[-1].get("settings") or {} if stacks else {}
    changes = list(differences(before, instances, settings, stack.settings))
    changes += _strictness(stacks[-1], stack) if stacks else ()
    if changes and not allowed:
        raise UserError(
            f"{paths.rollouts} was collected from another stack\n    " + "\n    ".join(changes),
            "start that stack, choose another -o, or add --fresh, or --accept-changes to mix the two",
        )
    now = {"since": _now(), "digest": digest_stack(instances), "instances": dict(instances)}
    now |= {"strict": list(stack.strict)} if stack.strict else {}
    now |= {"images": dict(stack.images)} if stack.images else {}
    now |= {"settings": dict(stack.settings)} if stack.settings else {}
    return [*stacks, now], [f"the stack has changed: {'; '.join(changes)}"] if changes else []


def _strictness(before: Mapping[str, Any], stack: StackOfRun) -> list[str]:
    then, now = ", ".join(before.get("strict") or ()), ", ".join(stack.strict)
    return [f"strict: {then or 'nothing'} then, {now or 'nothing'} now"] if then != now else []


def _show(identity: Mapping[str, Any], key: str) -> str:
    given = identity.get(key)
    return "nothing" if given in (None, "") else orjson.dumps(given, option=orjson.OPT_SORT_KEYS).decode()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
