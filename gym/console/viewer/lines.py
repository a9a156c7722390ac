"""One file of rollouts as columns: where each line is and its key facts, 48 bytes a line; the text stays on the disk.

Lines that were appended since the last look are read on the next one; a file that was replaced is read again.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import BinaryIO

from gym.console.viewer.facts import MALFORMED, Facts, read_facts

_BUFFER = 1 << 20
_HEAD = 256  # bytes by which a file is recognised


class TextNumbers:
    """Texts that repeat on every line, as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


class LineFile:
    def __init__(self, path: Path, names: TextNumbers, *, failed: bool = False) -> None:
        self.path = path
        self.failed = failed
        self._names = names
        self._clear()

    def _clear(self) -> None:
        self._end = 0  # of the last line that was read
        self._lines = 0
        self._inode = 0
        self._head = b""
        self._open_line = False  # the last line was whole JSON without its newline
        self.torn = 0  # bytes of a last line that is not whole (yet)
        self.offsets = array("Q")
        self.lengths, self.numbers, self.agents, self.kinds = (array("I") for _ in range(4))
        self.tasks, self.repeats, self.tokens = (array("i") for _ in range(3))
        self.rewards, self.seconds = array("d"), array("f")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        return self._end + self.torn

    def refresh(self) -> bool:
        """Read what is new; True when something is. A file that is not there (any more) is an empty one."""
        before = (self._inode, self._end, self.torn)
        try:
            stream = self.path.open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            self._clear()
            return before != (0, 0, 0)
        with stream:
            status = os.fstat(stream.fileno())
            if status.st_ino != self._inode or status.st_size < self._end or self._head != stream.read(len(self._head)):
                self._clear()
            if status.st_size != self._end + self.torn or not self._end:
                self._read(stream)
            self._inode = status.st_ino
        return before != (self._inode, self._end, self.torn)

    def fact(self, index: int) -> Facts:
        texts = self._names.texts
        return Facts(
            texts[self.agents[index]],
            texts[self.kinds[index]],
            self.rewards[index],
            self.tasks[index],
            self.repeats[index],
            self.seconds[index],
            self.tokens[index],
        )

    def read(self, index: int) -> bytes:
        """The line itself, as it is on the disk now."""
        with self.path.open("rb", buffering=0) as stream:
            return self.read_from(stream.fileno(), index)

    def read_from(self, descriptor: int, index: int) -> bytes:
        return os.pread(descriptor, self.lengths[index], self.offsets[index])

    def _read(self, stream: BinaryIO) -> None:
        stream.seek(self._end)
        self.torn = 0
        for raw in stream:
            whole = raw.endswith(b"\n")
            facts = read_facts(raw, failed=self.failed) if raw.strip() else None
            if not whole and facts is not None and facts.kind == MALFORMED:
                self.torn = len(raw)  # it is being written, or a crash cut it: not a malformed line yet
                break
            if not self._open_line:
                self._lines += 1
            if facts is not None:
                self._add(facts, len(raw))
            self._open_line = not whole
            self._head = self._head or raw[:_HEAD]
            self._end += len(raw)

    def _add(self, facts: Facts, length: int) -> None:
        self.offsets.append(self._end)
        self.lengths.append(length)
        self.numbers.append(self._lines)
        self.agents.append(self._names.number(facts.agent))
        self.kinds.append(self._names.number(facts.kind))
        self.tasks.append(facts.task)
        self.repeats.append(facts.repeat)
        self.tokens.append(facts.tokens)
        self.rewards.append(facts.reward)
        self.seconds.append(facts.seconds)
