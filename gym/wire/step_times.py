"""How long each call of a rollout's loop took, and its tokens: from the agent to its caller, in one short header.

`model 294.2 40/176, tools 57.1, model 20.0` is milliseconds, and what the model read and wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

MAX_HEADER: Final = 3000  # clients refuse headers of 8 KB
OMITTED: Final = "omitted"  # stands in the place of the calls that the header has no room for
OUTSIDE: Final = frozenset({"seed", "verify", "metrics"})  # hops that are not a step of the loop
_MAX_NAME = 40


@dataclass(slots=True)
class StepTime:
    hop: str
    seconds: float
    tokens: tuple[int, int] | None = None  # read and written

    def to_text(self) -> str:
        tokens = f" {self.tokens[0]}/{self.tokens[1]}" if self.tokens else ""
        return f"{self.hop} {self.seconds * 1000:.1f}{tokens}"


def write_steps(steps: Iterable[StepTime]) -> bytes:
    texts, size, left = [], 0, 0
    for step in steps:
        text = step.to_text()
        size += len(text) + 2
        if size > MAX_HEADER:
            left += 1
        else:
            texts.append(text)
    return ", ".join([*texts, f"{OMITTED} {left}"] if left else texts).encode("latin-1", "replace")


def read_steps(value: bytes) -> list[list[Any]]:
    """`[["model", 294.2, 40, 176], ["tools", 57.1]]`, as a rollout's stamp has it; what does not fit is passed over."""
    found = []
    for text in value[: MAX_HEADER + 100].decode("latin-1").split(", "):
        hop, _, rest = text.partition(" ")
        took, _, tokens = rest.partition(" ")
        try:
            step: list[Any] = [hop[:_MAX_NAME], float(took)]
            step += [int(one) for one in tokens.split("/")][:2] if tokens else []
        except ValueError:
            continue
        found.append(step)
    return found


def usage_tokens(usage: Any) -> tuple[int, int] | None:
    """What a model's reply says that it read and wrote."""
    if not isinstance(usage, dict):
        return None
    read, wrote = usage.get("input_tokens"), usage.get("output_tokens")
    return (read, wrote) if isinstance(read, int) and isinstance(wrote, int) else None
