"""The runs of a results folder with their sums, kept between two looks."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gym.collect.sidecar import OutputPaths
from gym.collect.study.in_steps import Unfinished
from gym.console.runs.agent_passes import TaskPasses
from gym.console.runs.run_figures import draw_figures, sum_up, take_snapshot, task_rows
from gym.console.runs.run_tally import RunTally
from gym.console.runs.task_sums import count_passed
from gym.console.viewer.run_files import Run, RunFiles

MAX_PROVENANCE = 4 << 20
MOMENT = 0.1  # seconds that one question may count
MAX_DRAWN = 4
MAX_NAMED = 5
ENDED = "ended"

Progress = Callable[[], Sequence[dict[str, Any]]]  # of collections that run now, as `/collections` lists them


@dataclass(frozen=True, slots=True)
class _Drawing:
    tally: RunTally
    changes: int  # of the tally, when it was begun
    generation: int
    work: Unfinished[dict[str, Any]]


class RunBoard:
    """May be asked from several threads. A question counts for a moment; what is left, the next one counts: who goes
    away leaves no work behind, and the lock of the files is held for some lines only."""

    def __init__(
        self, files: RunFiles, progress: Progress = lambda: (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._progress = progress
        self._clock = clock
        self._tallies: dict[str, tuple[Run, RunTally]] = {}
        self._drawings: OrderedDict[tuple[str, float, int], _Drawing] = OrderedDict()

    def views(self) -> list[dict[str, Any]]:
        """A line for each run, those that are collected now first, then the latest."""
        self._files.refresh()
        border = self._clock() + MOMENT
        running = self._progress()
        views, counted = [], False
        for run in list(self._files.runs.values()):
            tally = self._tally(run)
            with _held(tally.lock, 0) as mine:  # else another request counts it just now
                if mine and not (counted and self._clock() > border):
                    counted |= self._count(run, tally, border)
                whole = mine and tally.counted == len(run.rollouts) + len(run.failures)
                views.append(self._view(run, tally, running, whole=whole))
        return sorted(views, key=lambda view: (view["live"] is None, -(view["last"] or 0.0), view["name"]))

    def figures(self, name: str, pass_at: float, k: int = 0) -> dict[str, Any]:
        """`k`: of the pass@k of agents; 0: one that fits the run."""
        border = self._clock() + MOMENT
        self._files.refresh(first=(name,))
        run = self._files.named(name)
        generation = self._files.generation
        tally = self._tally(run)
        with _held(tally.lock, max(border - self._clock(), 0.0)) as mine:
            found = self._draw(run, tally, (pass_at, k), border, generation) if mine else None
        if found is None:
            counting = {"counted": tally.counted, "of": len(run.rollouts) + len(run.failures)}
            found = {**sum_up(tally), "counting": counting, "pass_at": pass_at, "k": k, "generation": generation}
        with self._files.lock:
            facts: dict[str, Any] = {"run": name, "path": str(run.path)}
            facts |= {"indexed": self._files.indexed((name,)), "troubles": self._files.problems()}
        state = self._state(run)
        live = None if state == ENDED else _progress_of(run, self._progress())
        return {**found, **facts, "state": state, "live": live}

    def tasks(self, name: str, sort: str, start: int, count: int, pass_at: float, k: int = 1) -> dict[str, Any]:
        border = self._clock() + MOMENT
        self._files.refresh()
        tally = self._tally(run := self._files.named(name))
        with tally.lock:
            self._count(run, tally, border)
            passed = count_passed(tally.known_places, tally.known_rewards, pass_at, len(tally.tasks))
            passes = TaskPasses(pass_at, k, passed)
            places = tally.tasks.in_order(sort, passes)
            with self._files.lock:
                rows = task_rows(tally, places[start : start + count], passes, name)
        return {"total": len(places), "start": start, "tasks": rows, "generation": self._files.generation}

    def provenance(self, name: str) -> Any:
        """`X_run.json`, which holds no secrets; None where another collector wrote none."""
        path = OutputPaths.beside(self._files.named(name).path).run
        if not self._files.is_inside(path) or not path.is_file() or path.stat().st_size > MAX_PROVENANCE:
            return None
        try:
            return orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            return {"error": f"{path.name} is not JSON: {error}"}

    def _tally(self, run: Run) -> RunTally:
        known, tally = self._tallies.get(run.name, (None, RunTally()))
        if known is not run:
            tally = RunTally()
            self._tallies[run.name] = run, tally
        return tally

    def _count(self, run: Run, tally: RunTally, border: float) -> bool:
        return tally.update(run, self._files.lock, lambda: self._clock() > border)

    def _draw(
        self, run: Run, tally: RunTally, asked: tuple[float, int], border: float, generation: int
    ) -> dict[str, Any] | None:
        """None while lines are counted. A drawing that was begun is drawn to its end though the run has grown: else
        one that grows all the time would never be seen."""
        self._count(run, tally, border)
        drawing = self._drawings.pop((run.name, *asked), None)
        if drawing is None or drawing.tally is not tally or (drawing.work.found and drawing.changes != tally.changes):
            if tally.behind:
                return None
            with self._files.lock:
                snapshot = take_snapshot(tally)
            drawing = _Drawing(tally, snapshot.changes, generation, Unfinished(draw_figures(snapshot, *asked)))
        found = drawing.work.go_on(lambda: self._clock() > border)
        self._drawings[run.name, *asked] = drawing
        while len(self._drawings) > MAX_DRAWN:
            self._drawings.popitem(last=False)
        if found is None:
            return None
        fresh = drawing.changes == tally.changes and not tally.behind
        return {**found, "counting": None, "generation": generation if fresh else drawing.generation}

    def _view(self, run: Run, tally: RunTally, running: Sequence[dict[str, Any]], *, whole: bool) -> dict[str, Any]:
        state = self._state(run)
        agents = list(tally.agents.values())
        counted = sum(one.rollouts for one in agents), sum(one.failed for one in agents)
        sizes = counted if whole else (len(run.rollouts), len(run.failures))
        return {
            "name": run.name,
            "bytes": run.rollouts.size,
            "state": state,
            "live": None if state == ENDED else _progress_of(run, running),
            "count": sizes[0],
            "failed": sizes[1],
            "mean": tally.rewards.mean if whole else None,
            "interval": tally.interval() if whole else None,
            "agents": [one.name for one in agents][:MAX_NAMED],
            "tasks": len(tally.tasks) if whole else None,
            "began": tally.began if tally.rewards.count and tally.began < float("inf") else None,
            "last": tally.last if tally.last > float("-inf") else None,
            **({} if whole else {"pending": True}),
        }

    def _state(self, run: Run) -> str:
        """A collection of ours writes its metrics last; of another collector's file nothing is known."""
        beside = OutputPaths.beside(run.path)
        if beside.metrics.is_file():
            return ENDED
        return "not ended" if beside.run.is_file() else ""


@contextmanager
def _held(lock: threading.Lock, seconds: float) -> Iterator[bool]:
    """Whether it could be had in time."""
    mine = lock.acquire(timeout=seconds)
    try:
        yield mine
    finally:
        if mine:
            lock.release()


def _progress_of(run: Run, running: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The progress of the collection that writes this file; collectors report only the file's name."""
    for one in running:
        progress = one.get("progress")
        if Path(str(one.get("output") or "")).name == run.path.name and isinstance(progress, dict):
            return progress
    return None
