"""Writes the metrics of a preparation together, and compares them with earlier ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gym.data.metrics_file import (
    conflict_path,
    find_differences,
    metrics_of,
    metrics_path,
    metrics_text,
    read_metrics,
)
from gym.data.scope import Placed
from gym.data.statistics import Statistics
from gym.data.whole_files import WholeFiles, whole_file
from gym.errors import UserError


class MetricsFiles:
    """Files are put, then conflicts refused; `files` replaces them when all is done."""

    def __init__(self, files: WholeFiles, *, overwrite: bool, say: Callable[[str], None]) -> None:
        self._files, self._overwrite, self._say = files, overwrite, say
        self._put: dict[Path, dict[str, Any]] = {}
        self._conflicts: list[tuple[Path, list[str]]] = []

    @property
    def written(self) -> tuple[Path, ...]:
        return tuple(self._put)

    def put_beside(self, placed: Placed, measured: Statistics) -> None:
        """Beside the rows; `measured` counts each row once. What is right already is left as it is."""
        path = metrics_path(placed.path)
        statistics = Statistics(measured.tokenizer)
        statistics.add(measured, placed.listed.data.num_repeats)
        metrics = metrics_of(placed.listed.data, statistics)
        if path.is_file() and read_metrics(path) is None:
            self._say(f"{path} is not a file of data-set metrics: left as it is")
        elif not os.access(path.parent, os.W_OK):
            self._say(f"{path.parent} cannot be written: no {path.name} there")
        else:
            self.put(path, metrics, keep=True)

    def put(self, path: Path, metrics: dict[str, Any], *, keep: bool = False) -> None:
        """`keep`: a file with the same figures is left as it is."""
        if path in self._put:
            self._same_or_refuse(path, metrics)
            return
        old = read_metrics(path) if path.is_file() else None
        differences = find_differences(old, metrics) if old is not None else []
        if differences:
            self._conflicts.append((path, differences))
            if not self._overwrite:
                with whole_file(conflict_path(path)) as file:
                    file.write(metrics_text(metrics))
                return
        elif old is not None and keep:
            return
        self._put[path] = metrics
        self._files.open(path).write(metrics_text(metrics))

    def refuse_conflicts(self) -> None:
        """Of the files put since the last call."""
        conflicts, self._conflicts = self._conflicts, []
        if not conflicts:
            return
        text = "\n".join(
            f"{path} has other figures:\n" + "\n".join(f"  {one}" for one in some) for path, some in conflicts
        )
        if self._overwrite:
            self._say(f"{text}\nwritten over")
            return
        old = " ".join(str(path) for path, _ in conflicts)
        new = ", ".join(str(conflict_path(path)) for path, _ in conflicts)
        raise UserError(
            f"{text}\nThe new figures are in {new}.",
            f"If the rows were meant to change: --overwrite-metrics-conflicts, or rm {old}",
        )

    def _same_or_refuse(self, path: Path, metrics: dict[str, Any]) -> None:
        if metrics != self._put[path]:
            lines = "\n".join(f"  {one}" for one in find_differences(self._put[path], metrics))
            raise UserError(
                f"Two data sets write {path}, and differ:\n{lines}",
                "give each its own file of rows, or list it once",
            )
