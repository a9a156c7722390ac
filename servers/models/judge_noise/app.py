"""A rehearsal judge: gives a verdict that depends on the question alone, and words it as some real model would."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import Field

from gym.errors import UserError
from gym.server import Model, ModelConfig
from gym.server.judge_noise import STYLES
from gym.wire import items

# What a question offers -> the verdicts to choose from: the first text that stands in it decides.
OFFERED = (
    ("Response refusal", ("Harmful request: no\nResponse refusal: no\nHarmful response: no", "Response refusal: yes")),
    ("3_partial_refusal", ("1_full_compliance", "2_full_refusal")),
    ("A, B or C", ("A", "B", "C")),
    ("[[A!=B]]", ("[[A=B]]", "[[A!=B]]")),
    ("INCORRECT", ("CORRECT", "INCORRECT")),
)
DEFAULT = ("[[A=B]]", "[[A!=B]]")


class JudgeNoiseConfig(ModelConfig):
    styles: list[str] = Field(default_factory=list)  # by name; empty: all of them, by turns
    readable_only: bool = False  # leave out those without a readable verdict


class JudgeNoise(Model):
    config: JudgeNoiseConfig

    async def start(self) -> None:
        self.styles = chosen_styles(self.config)
        self.asked = 0

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        """The verdict is the question's, the wording that of the next style."""
        question = _text(params)
        verdicts = next((found for mark, found in OFFERED if mark in question), DEFAULT)
        label = verdicts[hashlib.sha256(question.encode("utf-8", "replace")).digest()[0] % len(verdicts)]
        other = next(one for one in verdicts if one != label)
        style = STYLES[self.styles[self.asked % len(self.styles)]]
        self.asked += 1
        model = str(params.get("model") or self.name)
        return items.response([items.message(style.render(label, other))], model=model, params=params)


def chosen_styles(config: JudgeNoiseConfig) -> list[str]:
    if unknown := [one for one in config.styles if one not in STYLES]:
        raise UserError(f"styles: there is no {', '.join(unknown)}.", f"There are {', '.join(STYLES)}.")
    named = config.styles or list(STYLES)
    return [one for one in named if STYLES[one].readable or not config.readable_only]


def _text(params: dict[str, Any]) -> str:
    asked = params.get("input")
    return asked if isinstance(asked, str) else "\n".join(items.item_text(one) for one in asked or ())


app = JudgeNoise.app()
