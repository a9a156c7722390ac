"""A collection as a person follows it: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gym.cli import console
from gym.cli.failure_reasons import commonest_reasons
from gym.cli.sign_of_life import LIFE
from gym.collect import BadRow, Event, Notice, OnEvent, Progress, Summary
from gym.collect.queue.queue_options import QueueView
from gym.collect.run_replies import TERMINAL

PLAIN_SECONDS = 10.0
JSON_SECONDS = 1.0


@contextmanager
def follow_progress(*, bad_rows: bool = True, as_json: bool = False) -> Iterator[OnEvent]:
    """Without `bad_rows` they are not shown one by one: a run that ends on them lists them in its error."""
    with LIFE.hidden(), _follow_json() if as_json else _follow() as report:
        yield lambda event: report(event) if bad_rows or not isinstance(event, BadRow) else None


@contextmanager
def _follow() -> Iterator[OnEvent]:
    terminal = console.err()
    if not terminal.is_terminal:
        yield _PlainReporter().report
        return
    view = _BarReporter(terminal)
    with Live(get_renderable=view.render, console=terminal, refresh_per_second=8, transient=True):
        yield view.report


@contextmanager
def _follow_json() -> Iterator[OnEvent]:
    """One object a line: `progress` every second, `notice` and `bad_row` as they come."""
    begun = next_at = time.monotonic()

    def report(event: Event) -> None:
        nonlocal next_at
        now = time.monotonic()
        if isinstance(event, Progress):
            if now < next_at:
                return
            next_at = now + JSON_SECONDS
        fields = event.to_dict() if isinstance(event, Progress) else {"text": remark(event)}
        name = {Progress: "progress", Notice: "notice", BadRow: "bad_row"}[type(event)]
        console.note_line(json.dumps({"event": name, "after": round(now - begun, 3), **fields}, ensure_ascii=False))

    yield report


def show_summary(summary: Summary, stack: str = "") -> None:
    """What was collected, by agent; what failed, by kind; where it is; what became of the stack, where that is said."""
    progress = summary.progress
    rows = [
        (name, f"{one.done:,}", format_reward(one.mean_reward), _counted(one.failed, one.failures))
        for name, one in sorted(progress.agents.items())
    ]
    if len(rows) != 1:
        rows.append(
            (
                "all",
                f"{progress.done:,}",
                format_reward(progress.mean_reward),
                _counted(progress.failed, progress.failures),
            )
        )
    columns = ("AGENT", "ROLLOUTS", "MEAN REWARD", "FAILURES")
    console.show(console.make_table(columns, rows, right=columns[1:]))
    console.show()
    for name, value in _facts(summary, stack).items():
        if value:
            console.show(Text.assemble((f"{name:<9}", "bold"), value))
        if value and name == "failures" and summary.failures_file:
            for reason in commonest_reasons(summary.failures_file):
                console.show(Text(f"{'':<9}{reason}", style="yellow"))


def _facts(summary: Summary, stack: str) -> dict[str, str]:
    progress = summary.progress
    bad = len(summary.bad_rows)
    return {
        "rollouts": str(summary.output),
        "failures": f"{summary.failures_file}  ({_kinds(progress.failures)})" if summary.failures_file else "",
        "metrics": str(summary.metrics_file or ""),
        "read": f"gym view {shlex.quote(str(summary.output))}" if progress.done else "",
        "queue": _queue_words(progress.queue) if progress.queue else "",
        "bad rows": f"{bad} left out" if bad else "",
        "earlier": f"{progress.resumed:,} rollouts were there already" if progress.resumed else "",
        "took": f"{console.format_duration(progress.elapsed)}, {_mean_rate(progress):.1f} rollouts/s",
        "ended": summary.reason,
        "stack": stack,
        "go on": _way_on(summary),
    }


def _way_on(summary: Summary) -> str:
    """The command ends with 0 although rollouts failed, so a user has to read of them here."""
    if summary.reason:
        return "run the same command to resume; what is done stays done"
    failed = summary.progress.failed
    to_retry = sum(count for kind, count in summary.progress.failures.items() if kind not in TERMINAL)
    if not to_retry:
        return ""
    return (
        f"{to_retry:,} of {failed + summary.progress.done:,} failed and have no reward: the same command retries them"
    )


class _PlainReporter:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + PLAIN_SECONDS

    def report(self, event: Event) -> None:
        if not isinstance(event, Progress):
            show_remark(event)
        elif self._clock() >= self._next:
            self._next = self._clock() + PLAIN_SECONDS
            console.note(progress_line(event) + ("  paused" if event.paused_reason else ""), style="")
            if event.held:
                console.note(held_line(event), style="yellow")


class _BarReporter:
    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal  # the one that holds the bar: another would write into its line
        self._progress = Progress()

    def report(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._progress = event
        else:
            self._terminal.print(Text(remark(event), style="yellow"))

    def render(self) -> RenderableType:
        progress = self._progress
        settled, total = progress.done + progress.failed + progress.dropped, progress.total
        if progress.queue is not None:
            settled, total = progress.queue.done + progress.queue.failed, progress.queue.total
        grid = Table.grid(padding=(0, 1))
        grid.add_row(
            ProgressBar(total=total, completed=settled, width=28, pulse=total is None),
            Text(progress_line(progress)),
        )
        if progress.paused_reason:
            return Group(grid, Text(f"paused: {progress.paused_reason}", style="yellow"))
        if progress.held:
            return Group(grid, Text(held_line(progress), style="yellow"))
        if progress.stopping:
            return Group(grid, Text("stopping: rollouts in flight are finished; Ctrl-C once more drops them", "yellow"))
        return grid


def show_remark(event: BadRow | Notice) -> None:
    console.note(remark(event), style="yellow")


def remark(event: BadRow | Notice) -> str:
    return str(event.problem) if isinstance(event, BadRow) else event.text


def progress_line(progress: Progress) -> str:
    """`120/400  reward 0.512  31.0/s  eta 9s  2 failed (model 2)`."""
    total = "" if progress.total is None else f"/{progress.total:,}"
    parts = [f"{progress.done:,}{total}", f"reward {format_reward(progress.mean_reward)}", f"{progress.rate:.1f}/s"]
    if progress.eta_seconds is not None:
        parts.append(f"eta {console.format_duration(progress.eta_seconds)}")
    if progress.failed:
        parts.append(f"{progress.failed:,} failed ({_kinds(progress.failures)})")
    if progress.queue is not None:
        parts.append(_queue_words(progress.queue))
    return "  ".join(parts)


def _queue_words(queue: QueueView) -> str:
    """`queue 450/1,000 by 3 collectors`: all of it; the rest of the line is this collector's part."""
    failed = f", {queue.failed:,} failed" if queue.failed else ""
    collectors = "1 collector" if queue.collectors == 1 else f"{queue.collectors:,} collectors"
    return f"queue {queue.done:,}/{queue.total:,}{failed} by {collectors}"


def held_line(progress: Progress) -> str:
    """`held back: policy_model: 12 calls wait, api.openai.com refused 40 in the last 10 s`."""
    return f"held back: {'; '.join(map(str, progress.held))}"


def _mean_rate(progress: Progress) -> float:
    new = progress.done + progress.failed - progress.resumed
    return new / progress.elapsed if progress.elapsed > 0 else 0.0


def format_reward(reward: float | None) -> str:
    return "-" if reward is None else f"{reward:.3f}"


def _counted(failed: int, kinds: Mapping[str, int]) -> str:
    """`3 (judge 2, timeout 1)`; `0` where there is none."""
    return f"{failed:,} ({_kinds(kinds)})" if kinds else f"{failed:,}"


def _kinds(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(failures.items()))
