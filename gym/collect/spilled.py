"""`Tries` of millions of rollouts: on disk, in parts by task, one part in memory at a time."""

from __future__ import annotations

import hashlib
import struct
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from typing import IO, Any

from gym.collect.study.tries import Tries

_PARTS, _HELD, _IN_MEMORY = 64, 4096, 1 << 16
_RECORD = struct.Struct("<qqdq")  # task, repeat, reward, answer
_MASK = (1 << 62) - 1


class SpilledTries(Tries):
    """Takes over what another one holds. `close` it when done."""

    def __init__(self, held: Tries) -> None:
        super().__init__()
        vars(self).update(vars(held))
        self._parts: list[IO[bytes]] = [_open_part() for _ in range(_PARTS)]
        self._spill()

    def add(self, fields: Mapping[str, Any], reward: float) -> None:
        super().add(fields, reward)
        if len(self.rewards) >= _HELD:
            self._spill()

    def groups(self) -> Iterator[tuple[int, list[int]]]:
        """Part by part; the places are of the part in memory, until the next group is asked for."""
        self._spill()
        for part in self._parts:
            part.seek(0)
            for task, repeat, reward, answer in _RECORD.iter_unpack(part.read()):
                self.tasks.append(task)
                self.repeats.append(repeat)
                self.rewards.append(reward)
                self._answers.append(answer)
            yield from super().groups()
            self._let_go()

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def number_of(self, text: str) -> int:
        """No table of all answers: those that came after the taking over are told apart by 62 bits of their digest."""
        digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") & _MASK
        return self._known.get(text, digest)

    def _spill(self) -> None:
        for record in zip(self.tasks, self.repeats, self.rewards, self._answers, strict=True):
            part = self._parts[record[0] % _PARTS]
            part.seek(0, 2)
            part.write(_RECORD.pack(*record))
        self._let_go()

    def _let_go(self) -> None:
        self.tasks, self.repeats, self._answers = array("q"), array("q"), array("q")
        self.rewards = array("d")


def _open_part() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(_IN_MEMORY)
