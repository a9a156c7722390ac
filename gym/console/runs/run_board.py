"""The runs of a results folder with their sums, kept between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from gym.collect.sidecar import OutputPaths
from gym.console.pages.shell import NotThere
from gym.console.runs.run_figures import figures_of, mean_by_task, task_rows
from gym.console.runs.run_tally import RunTally
from gym.console.viewer.run_files import Run, RunFiles

MAX_PROVENANCE = 4 << 20
LIST_SECONDS = 0.15  # for the sums of all runs; those that are not there yet come with the next look
MAX_NAMED = 5
ENDED = "ended"
UNKNOWN: Mapping[str, Any] = {
    "pending": True,
    "mean": None,
    "interval": None,
    "agents": [],
    "began": None,
    "last": None,
}

Progress = Callable[[], Sequence[dict[str, Any]]]  # of collections that run now, as `/collections` lists them


class RunBoard:
    """May be asked from several threads."""

    def __init__(self, files: RunFiles, progress: Progress = lambda: ()) -> None:
        self._files = files
        self._progress = progress
        self._tallies: dict[str, tuple[Run, RunTally]] = {}
        self._kept: dict[tuple[str, float], tuple[int, dict[str, Any]]] = {}  # figures that still hold

    def views(self) -> list[dict[str, Any]]:
        """A line for each run, the latest first."""
        self._files.refresh()
        running = self._progress()
        with self._files.lock:
            border = time.monotonic() + LIST_SECONDS
            views = [self._view(run, border, running) for run in self._files.runs.values()]
        return sorted(views, key=lambda view: (-(view["last"] or 0.0), view["name"]))

    def figures(self, name: str, pass_at: float) -> dict[str, Any]:
        self._files.refresh()
        run = self._run(name)
        with self._files.lock:
            tally = self._tally(run)
            changes, found = self._kept.get((name, pass_at), (-1, {}))
            if changes != tally.changes:
                found = figures_of(tally, pass_at)
                self._kept = {(name, pass_at): (tally.changes, found)}
            facts = {"run": name, "path": str(run.path), "generation": self._files.generation}
            facts |= {"indexed": self._files.indexed(), "troubles": self._files.troubles()}
        state = self._state(run)
        return {**found, **facts, "state": state, "live": None if state == ENDED else _live(run, self._progress())}

    def tasks(self, name: str, sort: str, start: int, count: int, pass_at: float) -> dict[str, Any]:
        self._files.refresh()
        run = self._run(name)
        with self._files.lock:
            total, rows = task_rows(self._tally(run), sort, start, count, pass_at, name)
            return {"total": total, "start": start, "tasks": rows, "generation": self._files.generation}

    def provenance(self, name: str) -> Any:
        """`X_run.json`, which holds no secrets; None where another collector wrote none."""
        path = OutputPaths.beside(self._run(name).path).run
        if not self._files.is_inside(path) or not path.is_file() or path.stat().st_size > MAX_PROVENANCE:
            return None
        try:
            return orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            return {"error": f"{path.name} is not JSON: {error}"}

    def _run(self, name: str) -> Run:
        run = self._files.runs.get(name)
        if run is None:
            raise NotThere(f"there is no run {name[:200]!r} here")
        return run

    def _tally(self, run: Run) -> RunTally:
        known, tally = self._tallies.get(run.name, (None, RunTally()))
        if known is not run:
            tally = RunTally()
            self._tallies[run.name] = run, tally
        tally.update(run)
        return tally

    def _view(self, run: Run, border: float, running: Sequence[dict[str, Any]]) -> dict[str, Any]:
        sizes = {"count": len(run.rollouts), "failed": len(run.failures)}
        state = self._state(run)
        live = None if state == ENDED else _live(run, running)
        view = {"name": run.name, "bytes": run.rollouts.size, "state": state, "live": live}
        if run.name not in self._tallies and time.monotonic() > border:
            return {
                **view,
                **sizes,
                "pending": True,
                "mean": None,
                "interval": None,
                "agents": [],
                "last": None,
                "began": None,
            }
        tally = self._tally(run)
        agents = list(tally.agents.values())
        return {
            **view,
            "count": sum(one.rollouts for one in agents),
            "failed": sum(one.failed for one in agents),
            "mean": tally.rewards.mean,
            "interval": mean_by_task(tally.tasks.values()).interval,
            "agents": [one.name for one in agents][:MAX_NAMED],
            "tasks": len(tally.tasks),
            "began": tally.began if tally.rewards.count and tally.began < float("inf") else None,
            "last": tally.last if tally.last > float("-inf") else None,
        }

    def _state(self, run: Run) -> str:
        """A collection of ours writes its metrics last; of another collector's file nothing is known."""
        beside = OutputPaths.beside(run.path)
        if beside.metrics.is_file():
            return ENDED
        return "not ended" if beside.run.is_file() else ""


def _live(run: Run, running: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """How the collection that writes this file is getting on; collectors say the file's name alone."""
    for one in running:
        progress = one.get("progress")
        if Path(str(one.get("output") or "")).name == run.path.name and isinstance(progress, dict):
            return progress
    return None
