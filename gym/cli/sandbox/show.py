"""Sandboxes as a table, and a command's output as it comes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from gym.cli import console
from gym.errors import InfraError
from gym.wire.sandbox import ExecResult, SandboxInfo, to_bytes

COLUMNS: Final = ("SANDBOX", "STATE", "STACK", "INSTANCE", "IMAGE", "ROLLOUT", "NETWORK", "AGE", "LEFT", "")
STYLE: Final = {"running": "green", "lost": "red"}
STDOUT, STDERR = 1, 2
TIMED_OUT, SIGNALLED = 124, 128  # as `timeout` and shells say it


def sandbox_table(found: Sequence[SandboxInfo]) -> Table:
    """Whose they are is said where they are not all of one stack."""
    several = len({one.stack for one in found}) > 1
    rows = [_row(one, time.time(), one.stack if several else "") for one in found]
    return console.make_table(COLUMNS, rows, right=("AGE", "LEFT"))


def show_output(lines: Iterable[dict[str, Any]]) -> ExecResult:
    """Both streams as they come, then the end of each that was kept inside; the result."""
    shown = {STDOUT: 0, STDERR: 0}
    for line in lines:
        if "data" in line:
            data = to_bytes(line["data"])
            shown[line["stream"]] += len(data)
            console.show_bytes(data, error=line["stream"] == STDERR)
        elif "result" in line:
            result = ExecResult.model_validate(line["result"])
            for stream, kept in ((STDOUT, result.stdout), (STDERR, result.stderr)):
                console.show_bytes((kept.head + kept.tail)[shown[stream] :], error=stream == STDERR)
            return result
        elif "error" in line:
            raise InfraError(str(line["error"].get("message", line["error"])), "gym logs sandbox")
    raise InfraError("The line to the sandbox broke before the command ended.", "gym sandbox ls; gym logs sandbox")


def exit_code(result: ExecResult, timeout: float) -> int:
    """The command's own; as a shell would say it where it had none."""
    if result.oom:
        console.note("out of memory: the kernel killed something in this sandbox", style="yellow")
    for stream in (result.stdout, result.stderr):
        if stream.dropped:
            console.note(f"{stream.dropped} bytes of output were dropped", style="yellow")
    if result.timed_out:
        console.note(f"killed after {timeout:g} s", style="yellow")
        return TIMED_OUT
    return result.exit_code if result.exit_code is not None else SIGNALLED + (result.signal or 0)


def _row(one: SandboxInfo, now: float, stack: str) -> tuple[str | Text, ...]:
    return (
        one.id,
        Text(one.state, style=STYLE.get(one.state, "")),
        stack,
        one.instance,
        one.image,
        one.rollout,
        one.network,
        console.format_duration(max(0.0, now - one.created)) if one.created else "",
        console.format_duration(max(0.0, one.expires - now)) if one.expires else "",
        one.why_lost,
    )
