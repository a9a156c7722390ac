"""Named runs: the files and folders that were given, found again as they change. No name reaches another file.

A first look at a large file reads its beginning; a thread reads the rest while pages are already shown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gym.collect.sidecar import OutputPaths
from gym.console.pages.shell import NotThere
from gym.console.viewer.foreign_logs import SUFFIXES, Reader, convert, find_reader
from gym.console.viewer.lines import LineFile
from gym.data.file_kinds import named_kind
from gym.errors import UserError

ROLLOUTS, FAILURES = ".jsonl", "_failures.jsonl"
NO_RUNS = ("_materialized_inputs.jsonl", "_notes.jsonl")  # what lies beside a run
MAX_RUNS = 5_000
FIRST_LOOK = 4 << 20  # bytes of a file that are read at once
SLICE = 1 << 20  # bytes between two moments in which others may look
SCAN_SECONDS = 1.0
FIRST_SECONDS = 0.3  # of all files together


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    path: Path
    rollouts: LineFile
    failures: LineFile

    @property
    def files(self) -> tuple[LineFile, LineFile]:
        return self.rollouts, self.failures


class RunFiles:
    """May be asked from several threads; who reads columns holds `lock`."""

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        later: bool = False,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`later`: what is not there yet is a folder that may come."""
        self.lock = threading.RLock()
        self.generation = 0
        self.runs: dict[str, Run] = {}  # by name
        self.files: list[LineFile] = []  # of all runs that ever were: a file keeps its number
        self.notices: list[str] = []
        self._given = tuple(paths)
        self._clock = clock
        self._environ = environ
        self._readers: dict[Path, tuple[int, Reader | None]] = {}  # by their inode: of which kind a file is
        self._converted: dict[Path, Path] = {}  # what was made -> the log that it was made of
        self._scanned = -SCAN_SECONDS
        self._known: dict[Path, Run] = {}
        self._numbers: dict[Path, int] = {}
        self._unreadable: dict[Path, str] = {}
        self._worker: threading.Thread | None = None
        self._closed = threading.Event()
        self._later = later
        self._first: frozenset[str] = frozenset()
        for path in self._given if not later else ():
            _check(path)
        self._scan()

    def refresh(self, *, whole: bool = False, first: Collection[str] = ()) -> None:
        """Look at every file; `whole`: return when all is read. `first`: the runs that a request waits for."""
        with self.lock:
            self._first = frozenset(first) or self._first
            if whole or self._clock() - self._scanned >= SCAN_SECONDS:
                self._scan()
            border = self._clock() + FIRST_SECONDS
            for file in self._in_turn():
                self._look(file, None if whole else FIRST_LOOK if self._clock() < border else 0)
            if not whole and self._behind():
                self._start()

    def named(self, name: str) -> Run:
        run = self.runs.get(name)
        if run is None:
            raise NotThere(f"there is no run {name[:200]!r} here")
        return run

    def shown(self) -> list[LineFile]:
        return [file for run in self.runs.values() for file in run.files]

    def _in_turn(self) -> list[LineFile]:
        return sorted(self.shown(), key=lambda file: file.run not in self._first) if self._first else self.shown()

    def number(self, file: LineFile) -> int:
        """In `files`."""
        return self._numbers[file.path]

    def of(self, runs: Collection[str]) -> list[LineFile]:
        """Their files; of all runs where none is named."""
        return [file for file in self.shown() if not runs or file.run in runs]

    def indexed(self, runs: Collection[str] = ()) -> float:
        """The part of their bytes that was read, 0 to 1."""
        size = sum(file.size for file in self.of(runs))
        return 1 - sum(file.behind for file in self.of(runs)) / size if size else 1.0

    def is_inside(self, path: Path) -> bool:
        """Whether a file beside a run may be opened: it lies in a given folder, or beside a given file."""
        real = _real(path)
        return path in self._converted or any(
            real.is_relative_to(_real(one)) if self._later or one.is_dir() else real.parent == _real(one).parent
            for one in self._given
        )

    def given(self, path: Path) -> Path:
        """The user's file: what was made of a log lies in a cache."""
        return self._converted.get(path, path)

    def problems(self) -> list[str]:
        gone = [f"{one} is not there any more" for one in self._given if not self._later and not one.exists()]
        return [*gone, *self.notices, *(f"{path}: {what}" for path, what in self._unreadable.items())]

    def close(self) -> None:
        self._closed.set()
        if self._worker is not None:
            self._worker.join()

    def _look(self, file: LineFile, limit: int | None) -> None:
        if file.path.is_symlink() and not self.is_inside(file.path):
            self._unreadable[file.path] = "leads out of the folder"
            return
        try:
            self.generation += file.refresh(limit)
            self._unreadable.pop(file.path, None)
        except OSError as error:
            self._unreadable[file.path] = error.strerror or str(error)

    def _behind(self) -> list[LineFile]:
        return [file for file in self._in_turn() if file.behind and file.path not in self._unreadable]

    def _start(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._read_on, name="index of rollouts", daemon=True)
            self._worker.start()

    def _read_on(self) -> None:
        """A lock is not fair: without the pause no other thread would get it."""
        while not self._closed.wait(0.001):
            with self.lock:
                behind = self._behind()
                if not behind:
                    self._worker = None
                    return
                self._look(behind[0], SLICE)

    def _scan(self) -> None:
        self._scanned = self._clock()
        self.notices = []
        found = dict(self._named())
        opened = ((name, self._made(path)) for name, path in found.items())
        runs = {name: self._open(name, path) for name, path in opened if path is not None}
        if runs != self.runs:
            self.generation += 1
        self.runs = runs

    def _made(self, path: Path) -> Path | None:
        """The file itself, or what a log of another tool was made into; None for what is not a run."""
        reader = self._reader(path)
        if reader is None:
            return path if path.suffix == ROLLOUTS or path in self._given else None
        try:
            made = convert(path, reader, self._environ)
        except (UserError, OSError) as error:
            self.notices.append(str(error))
            return None
        self._converted[made] = path
        return made

    def _reader(self, path: Path) -> Reader | None:
        try:
            inode = path.stat().st_ino if path.stat().st_size else 0
        except OSError:
            return None
        known = self._readers.get(path)
        if known is None or known[0] != inode or not inode:
            known = self._readers[path] = inode, find_reader(path) if path.is_file() else None
        return known[1]

    def _open(self, name: str, path: Path) -> Run:
        known = self._known.get(path)
        if known is not None and known.name == name:
            return known
        failures = OutputPaths.beside(path).failures
        run = Run(name, path, LineFile(path, run=name), LineFile(failures, run=name, failed=True))
        for file in run.files:
            self._numbers[file.path] = len(self.files)
            self.files.append(file)
        self._known[path] = run
        return run

    def _named(self) -> Iterator[tuple[str, Path]]:
        taken: dict[str, Path] = {}
        for given in self._given:
            folder = self._later or given.is_dir()
            pairs = self._in_folder(given) if folder else [(_stem(given.name), _rollouts_of(given))]
            for name, path in pairs:
                if path in taken.values():
                    continue
                if len(taken) >= MAX_RUNS:
                    self.notices.append(f"{given}: more than {MAX_RUNS} runs; the others are not shown")
                    return
                unique = _unique(name, path, taken)
                taken[unique] = path
                yield unique, path

    def _in_folder(self, folder: Path) -> Iterator[tuple[str, Path]]:
        root = _real(folder)
        found: dict[str, Path] = {}
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for name in names:
                path = Path(parent, name)
                if name.startswith(".") or not name.endswith(SUFFIXES) or name.endswith(NO_RUNS):
                    continue
                if path.is_symlink() and not _real(path).is_relative_to(root):
                    self.notices.append(f"{path} leads out of {folder}: it is not shown")
                    continue
                if path.suffix != ROLLOUTS and self._reader(path) is None:
                    continue
                rollouts = _rollouts_of(path)
                found[_stem(rollouts.relative_to(folder).as_posix())] = rollouts
        return iter(sorted(found.items()))


def _check(path: Path) -> None:
    if kind := named_kind(path.name):
        raise UserError(f"{path} is packed, and a page jumps to and fro in its file.", f"{kind.unpack} {path}")
    if not path.is_file() and not path.is_dir():
        raise UserError(
            f"{path} is not there.", "Give the file that `gym rollouts -o FILE.jsonl` wrote, or a folder of such files."
        )


def _real(path: Path) -> Path:
    """Links followed; a loop of them stays as it is."""
    return Path(os.path.realpath(path))


def _rollouts_of(path: Path) -> Path:
    """Of failures, the rollouts beside them, whether there are any or not."""
    return path.with_name(path.name.removesuffix(FAILURES) + ROLLOUTS) if path.name.endswith(FAILURES) else path


def _stem(name: str) -> str:
    for suffix in (FAILURES, *SUFFIXES):
        if name.endswith(suffix):
            return name.removesuffix(suffix) or name
    return name


def _unique(name: str, path: Path, taken: dict[str, Path]) -> str:
    if name not in taken:
        return name
    longer = f"{path.resolve().parent.name}/{name}"
    numbered = (f"{longer} {number}" for number in range(2, len(taken) + 3))
    return longer if longer not in taken else next(one for one in numbered if one not in taken)
