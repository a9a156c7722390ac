# mypy: ignore-errors
"""Writes the small log that stands beside this file, with the real package: `pip install inspect-ai openai`, run it.

    python write_inspect.py FOLDER

Two samples in two epochs; the model is a fixed list of replies, a tool is called, one answer is wrong.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import tiktoken


class Words:
    """A tokenizer that downloads nothing."""

    def encode(self, text: str, **_: object) -> list[str]:
        return text.split()

    encode_ordinary = encode


tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: Words()

from inspect_ai import Task  # noqa: E402
from inspect_ai import eval as run  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ModelOutput, get_model  # noqa: E402
from inspect_ai.scorer import Score, includes, mean, scorer  # noqa: E402
from inspect_ai.solver import generate, use_tools  # noqa: E402
from inspect_ai.tool import tool  # noqa: E402


@tool
def add() -> Any:
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: First number.
            y: Second number.
        """
        return x + y

    return execute


@scorer(metrics=[mean()])
def style() -> Any:
    async def score(_: Any, __: Any) -> Score:
        return Score(value=0.5, explanation="neat enough")

    return score


def main() -> None:
    outputs = []
    for each in range(4):
        outputs.append(ModelOutput.for_tool_call("mockllm/model", "add", {"x": 1, "y": each}))
        outputs.append(ModelOutput.from_content("mockllm/model", f"The sum is {1 + each}"))
    model = get_model("mockllm/model", custom_outputs=outputs)
    samples = [
        Sample(input="What is 1 + 0?", target="1", id="one"),
        Sample(input="What is 1 + 2?", target="9", id="two"),
    ]
    task = Task(dataset=samples, solver=[use_tools(add()), generate()], scorer=[includes(), style()], name="sums")
    os.chdir("/")
    for form in ("eval", "json"):
        run(task, model=model, epochs=2, log_dir=sys.argv[1], log_format=form, display="none", max_samples=1)


if __name__ == "__main__":
    main()
