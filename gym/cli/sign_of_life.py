"""No command is silent for long: on a terminal a line that moves, in a file or a pipe one every ten seconds of silence.

Whatever is printed counts as a sign too, and erases the line that moves before it.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

TERMINAL_SECONDS: Final = 3.0  # of silence, where the command has not said what is going on
PIPE_SECONDS: Final = 10.0
FRAME_SECONDS: Final = 0.1
FRAMES: Final = "|/-\\"
ERASE: Final = "\r\x1b[2K"

Words = Callable[[], str]


class SignOfLife:
    """Of this process: it has one terminal. `after` seconds of silence are too long."""

    def __init__(self, *, terminal: float = TERMINAL_SECONDS, pipe: float = PIPE_SECONDS) -> None:
        self._seconds = {True: terminal, False: pipe}
        self._lock = threading.RLock()
        self._words: list[tuple[Words, float]] = []  # the innermost last, and since when
        self._drawn = False
        self._hidden = 0
        self._said = 0.0
        self._frame = 0

    @contextmanager
    def of_command(self, what: str) -> Iterator[None]:
        """While inside, a thread watches the silence."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended,), name="sign of life", daemon=True)
        with self.telling(lambda: what):
            self.said()
            watcher.start()
            try:
                yield
            finally:
                ended.set()
                watcher.join()
                self.said()

    @contextmanager
    def telling(self, words: Words) -> Iterator[None]:
        """What is going on meanwhile, in words that may change."""
        entry = (words, time.monotonic())
        with self._lock:
            self._words.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._words.remove(entry)
            self.said()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """For what shows its own progress, follows others, or waits for a person."""
        self.said()
        with self._lock:
            self._hidden += 1
        try:
            yield
        finally:
            with self._lock:
                self._hidden -= 1
            self.said()

    def said(self) -> None:
        """Something is about to be printed."""
        with self._lock:
            self._said = time.monotonic()
            if self._drawn:
                self._drawn = False
                _write(ERASE)

    def look(self) -> None:
        """One look at the silence."""
        with self._lock:
            if self._hidden or not self._words:
                return
            words, since = self._words[-1]
            terminal = sys.stderr.isatty()
            # What a command says of itself is worth showing at once.
            max_silence = 2 * FRAME_SECONDS if terminal and len(self._words) > 1 else self._seconds[terminal]
            if time.monotonic() - self._said < max_silence:
                return
            line = f"{words()} ({time.monotonic() - since:.0f} s)"
            if terminal:
                self._draw(line)
            else:
                self._said = time.monotonic()
                _write(f"{line}\n")

    def _draw(self, line: str) -> None:
        """Leaves the moment of the last word as it was: the line stays until something is printed."""
        self._frame = (self._frame + 1) % len(FRAMES)
        width = shutil.get_terminal_size().columns - 1
        _write(f"{ERASE}{f'{FRAMES[self._frame]} {line}'[:width]}")
        self._drawn = True

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(FRAME_SECONDS if sys.stderr.isatty() else FRAME_SECONDS * 5):
            self.look()


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # who read it has left
        sys.stderr.write(text)
        sys.stderr.flush()


LIFE: Final = SignOfLife()
