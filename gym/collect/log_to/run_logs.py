"""Feeds trackers from a thread of its own: one that fails, or hangs, is named once and never holds a collection up."""

from __future__ import annotations

import importlib
import importlib.util
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from gym.collect.events import Event, Notice, OnEvent, Progress, Summary
from gym.collect.log_to.trackers import NAMES, RunFacts, SampleRollout, Tracker
from gym.collect.run_replies import STAMP
from gym.data.row_parsing import PARAMS
from gym.errors import UserError
from gym.files import read_object, write_atomically
from gym.wire.items import last_user_text, output_text
from gym.wire.metrics import ROLLOUT, TASK

EVERY_SECONDS: Final = 5.0
END_SECONDS: Final = 120.0  # for what trackers have not sent yet when the collection has ended
SAMPLES: Final = 20
LONGEST_TEXT: Final = 10_000
LONGEST_LINE: Final = 4 << 20  # a longer rollout is not a sample

Work = Callable[[Tracker], None]


class _Warned(NamedTuple):
    name: str
    error: BaseException

    def __str__(self) -> str:
        what = " ".join(str(self.error).split())[:300] or type(self.error).__name__
        return f"--log-to {self.name} failed, and nothing more is sent to it: {what}. The collection goes on."


class RunLogs:
    """Of one collection. `on_event` takes the place of the collection's own; `close` ends it."""

    def __init__(self, names: Sequence[str], output: Path, config: Mapping[str, Any], on_event: OnEvent) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._output, self._config, self._report = output, config, on_event
        self._queue: queue.Queue[Work | None] = queue.Queue(maxsize=100)
        self._warnings: queue.SimpleQueue[_Warned] = queue.SimpleQueue()
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self._failed = False

    def on_event(self, event: Event) -> None:
        self._report(event)
        self._pass_warnings_on()
        if not self._names or not isinstance(event, Progress):
            return
        self._start(event)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_SECONDS
            self._put(_work_of(event))

    def close(self, summary: Summary | None) -> None:
        """`summary` is None where the collection raised."""
        if self._thread is None:
            return
        self._failed = summary is None or summary.exit_code != 0
        if summary is not None:
            self._put(_work_of(summary.progress))
            self._put(_final_work(summary))
        self._put(None)
        self._thread.join(END_SECONDS)
        self._pass_warnings_on()
        if self._thread.is_alive():
            names = ", ".join(self._names)
            self._report(Notice(f"--log-to {names}: not everything was sent within {END_SECONDS:g} s"))

    def _start(self, first: Progress) -> None:
        """With the first progress: it says whether this run goes on with an earlier one."""
        if self._thread is None:
            keys = read_keys(self._output) if first.resumed else {}
            self._thread = threading.Thread(target=self._send, args=(keys,), name="log-to", daemon=True)
            self._thread.start()

    def _put(self, work: Work | None) -> None:
        try:
            self._queue.put(work, timeout=0.0 if work is not None else END_SECONDS)
        except queue.Full:
            return  # a tracker that is this slow gets fewer points, and the collection does not wait for it

    def _pass_warnings_on(self) -> None:
        while True:
            try:
                self._report(Notice(str(self._warnings.get_nowait())))
            except queue.Empty:
                return

    # In the thread.

    def _send(self, keys: Mapping[str, str]) -> None:
        trackers = dict(self._opened(keys))
        write_keys(self._output, {**keys, **{name: one.key for name, one in trackers.items()}})
        while (work := self._queue.get()) is not None:
            self._each(trackers, work)
        self._each(trackers, lambda one: one.close(failed=self._failed))

    def _opened(self, keys: Mapping[str, str]) -> Iterator[tuple[str, Tracker]]:
        for name in self._names:
            facts = RunFacts(_stem(self._output), self._output.parent, keys.get(name, ""), self._config)
            try:
                yield name, importlib.import_module(NAMES[name].module).open_tracker(facts)
            except Exception as error:  # noqa: BLE001 (whatever a package raises, rollouts are what matters)
                self._warnings.put(_Warned(name, error))

    def _each(self, trackers: dict[str, Tracker], work: Work) -> None:
        for name, tracker in list(trackers.items()):
            try:
                work(tracker)
            except Exception as error:  # noqa: BLE001 (the same)
                del trackers[name]
                self._warnings.put(_Warned(name, error))


def check_loggers(names: Sequence[str]) -> None:
    """Before anything starts: every name is known, and its package is there."""
    for name in names:
        known = NAMES.get(name)
        if known is None:
            raise UserError(f"--log-to {name}: no such tracker.", f"There is {', '.join(NAMES)}.")
        spec = importlib.util.find_spec(known.package)
        if spec is None or spec.origin is None:  # a folder of that name is not a package: W&B itself leaves one behind
            raise UserError(
                f"--log-to {name}: the package {known.package} is not installed here.",
                f"pip install 'compose-gym[{known.extra}]'",
            )


def read_keys(output: Path) -> dict[str, str]:
    """What a resume of this output goes on with, by tracker."""
    return {name: str(key) for name, key in read_object(_keys_file(output)).items()}


def write_keys(output: Path, keys: Mapping[str, str]) -> None:
    try:
        write_atomically(_keys_file(output), orjson.dumps(keys).decode())
    except OSError:
        return  # a resume begins another run in the tracker


def read_samples(output: Path) -> list[SampleRollout]:
    """The first rollouts of a file, however large it is."""
    samples: list[SampleRollout] = []
    with output.open("rb") as stream:
        while len(samples) < SAMPLES and (line := stream.readline(LONGEST_LINE)):
            try:
                samples.append(_sample(orjson.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return samples


def progress_values(progress: Progress) -> dict[str, float]:
    """Numbers alone; the mean reward only once there is one."""
    values: dict[str, float] = {
        "done": progress.done,
        "failed": progress.failed,
        "retries": progress.retries,
        "in_flight": progress.in_flight,
        "rollouts_per_second": progress.rate,
    }
    if progress.mean_reward is not None:
        values["reward/mean"] = progress.mean_reward
    values |= {f"failures/{kind}": count for kind, count in progress.failures.items()}
    if len(progress.agents) > 1:
        known = ((name, one.mean_reward) for name, one in progress.agents.items())
        values |= {f"reward/mean/{name}": mean for name, mean in known if mean is not None}
    return values


def final_values(metrics_file: Path | None) -> dict[str, float]:
    """What the agents' resources servers made of all rollouts: pass@k and the like."""
    try:
        entries = orjson.loads(metrics_file.read_bytes()) if metrics_file else []
    except (OSError, ValueError):
        return {}
    found: dict[str, float] = {}
    for entry in entries if isinstance(entries, list) else ():
        metrics = entry.get("agent_metrics") if isinstance(entry, dict) else None
        name = (entry.get("agent_ref") or {}).get("name", "agent") if isinstance(entry, dict) else ""
        for key, value in metrics.items() if isinstance(metrics, dict) else ():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found[f"final/{name}/{key}"] = value
    return found


def _work_of(progress: Progress) -> Work:
    values, step = progress_values(progress), progress.done + progress.failed
    return lambda tracker: tracker.log(step, values)


def _final_work(summary: Summary) -> Work:
    step = summary.progress.done + summary.progress.failed
    values = final_values(summary.metrics_file)

    def work(tracker: Tracker) -> None:
        if values:
            tracker.log(step, values)
        if samples := read_samples(summary.output):
            tracker.log_samples(step, samples)

    return work


def _sample(fields: Mapping[str, Any]) -> SampleRollout:
    asked, answered = last_user_text(fields[PARAMS].get("input")), output_text(fields["response"].get("output"))
    agent = str(fields[STAMP].get("agent", ""))
    texts = asked[:LONGEST_TEXT], answered[:LONGEST_TEXT]
    return SampleRollout(int(fields[TASK]), int(fields[ROLLOUT]), agent, float(fields["reward"]), *texts)


def _keys_file(output: Path) -> Path:
    return output.with_name(f".{output.name}.log-to.json")


def _stem(output: Path) -> str:
    return output.name.removesuffix(".jsonl")
