"""Compares two mathematical answers by math-verify, in processes that are killed when it never ends.

The server that uses it has `math-verify` in its requirements.txt; the SDK itself does not need it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gym.server.hedges import hedge_of_formula, values_beside
from gym.server.slots import kept, last_box, unwrapped
from gym.server.workers import WorkerOutOfMemory, Workers, WorkerTooSlow
from gym.wire.answers import last_boxed
from gym.wire.failures import RolloutError

TAIL = 8_000  # characters: of a longer text the end is read, where an answer stands
LONGEST_SHOWN = 1_000
MAX_SIDES = 4  # of a chain of equations


class MathComparison(NamedTuple):
    """`extracted` is what was read out of the answer, as text; None: nothing was."""

    equal: bool
    extracted: str | None
    bad_gold: bool = False  # the expected answer itself could not be read
    too_costly: str = ""  # why the answer could not be compared: `timeout` or `memory`
    hedged: str = ""  # why an equal answer does not count where only one that stands by itself does


class Mathematics:
    """Start none of it; `close` it. What takes more CPU time than `seconds`, or too much memory, equals nothing.

    The author of the answer chose that cost; an expected answer that costs it by itself is a fault of the row.
    """

    def __init__(self, *, seconds: float = 10.0, count: int = 2) -> None:
        self._workers = Workers("symbolic", count=count, timeout=seconds, folder=Path(__file__).with_name("in_workers"))

    async def compare(self, expected: str, answer: str) -> MathComparison:
        gold = without_delimiters(expected)
        try:
            found = await self._workers.call("compare", gold, readable_part(answer))
        except (WorkerTooSlow, WorkerOutOfMemory) as error:
            await self._check_gold(gold)
            return MathComparison(False, None, too_costly="timeout" if isinstance(error, WorkerTooSlow) else "memory")
        extracted = found["extracted"]
        return MathComparison(found["equal"], extracted and extracted[:LONGEST_SHOWN], found["bad_gold"])

    async def compare_box(self, expected: str, answer: str) -> MathComparison:
        """Strictly: only the last box that holds something, which neither denies nor lists nor contradicts itself."""
        box = kept(answer, last_box(answer))
        if box is None:
            return MathComparison(False, None, hedged="nothing that counts stands in a box")
        gold = without_delimiters(expected)
        if len(box) > TAIL:
            return MathComparison(False, box[:LONGEST_SHOWN], hedged="the box holds far more than an answer")
        if why := hedge_of_formula(box, gold):
            return MathComparison(False, box[:LONGEST_SHOWN], hedged=why)
        found = MathComparison(False, None)
        for form in dict.fromkeys((box, unwrapped(box))):
            found = await self.compare(expected, f"\\boxed{{{form}}}")
            if found.equal or found.too_costly or found.bad_gold:
                break
        found = found._replace(extracted=found.extracted or box[:LONGEST_SHOWN])
        return await self._check_sides(found, gold, box) if found.equal else found

    async def _check_sides(self, found: MathComparison, gold: str, box: str) -> MathComparison:
        sides = values_beside(unwrapped(box), gold)
        if len(sides) > MAX_SIDES:
            return found._replace(equal=False, hedged="the answer is a long chain")
        for side in sides:
            if not (await self.compare(gold, f"\\boxed{{{side}}}")).equal:
                return found._replace(equal=False, hedged="the answer equates what differs")
        return found

    async def _check_gold(self, gold: str) -> None:
        """By itself, without the answer."""
        try:
            await self._workers.call("compare", gold, "")
        except (WorkerTooSlow, WorkerOutOfMemory) as error:
            raise RolloutError("row", f"expected_answer: {gold[:200]!r} cannot be read: {error.message}") from None

    async def close(self) -> None:
        await self._workers.close()


def readable_part(answer: str) -> str:
    """Its end, and before that the last box of all of it where that stands further up."""
    tail = answer[-TAIL:]
    if len(answer) <= TAIL or last_boxed(tail) is not None:
        return tail
    box = last_boxed(answer)
    return tail if box is None or len(box) > TAIL else f"\\boxed{{{box}}}\n{tail}"


def without_delimiters(text: str) -> str:
    r"""`\( x \)` and `$x$` are `x`."""
    text = text.strip()
    if text.startswith("\\(") and text.endswith("\\)"):
        text = text[2:-2].strip()
    if len(text) > 1 and text.startswith("$") and text.endswith("$"):
        text = text[1:-1].strip()
    return text
