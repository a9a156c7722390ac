"""Makes rows of function calls on made tools: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how many calls are needed, how many functions are offered, and how many arguments may be left out.
"""

import json
from random import Random
from typing import Any, Final, NamedTuple

from made_tools import TOOLS, MadeTool

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row

SYSTEMS: Final = (
    "You may call functions. Write every value as the function's schema asks for it, and leave out what was not said. "
    "Call all that the question needs at once; when none of them fits, say so.",
    "Answer with function calls, all of them at once. Give an argument only where the user gave its value. "
    "If no function does what is asked for, tell the user so and call none.",
    "Use the functions you are offered. Every request in the message needs one call; make them together. Do not "
    "fill in arguments that nobody mentioned. Where no function fits, call none and say that.",
)
JOINTS: Final = (". Then ", ". Also, ", "; and ", ". After that, ", ". Besides, ")
POLITE: Final = ("", "", "Please ", "Could you do this for me: ", "I need some help: ", "Hello! ")
QUESTIONS: Final = ("how", "what", "when", "where", "which")
NONE_FITS: Final = "None of the functions I have does that."


class Level(NamedTuple):
    calls: tuple[int, int]
    offered: tuple[int, int]
    extras: int  # arguments that may be left out and are not, at most, a call
    none: float  # the share of rows for which no function fits


LEVELS: Final = {
    "easy": Level((1, 1), (2, 3), 0, 0.0),
    "medium": Level((1, 2), (5, 8), 1, 0.1),
    "hard": Level((3, 5), (12, 20), 2, 0.1),
}


class XlamFcGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        wanted = [random.choice(TOOLS) for _ in range(random.randint(*level.calls))]
        asked = [tool.request(random, random.randint(0, level.extras)) for tool in wanted]
        calls = [call for call, _ in asked]
        texts = [json.dumps(call, sort_keys=True) for call in calls]
        if len(set(texts)) < len(texts):
            return self.make(random, difficulty)
        fits = random.random() >= level.none
        row = make_row(
            "xlam_fc",
            key := f"{'' if fits else 'none of '}{sorted(texts)}",
            _messages(random, [text for _, text in asked]),
            expected_answers=calls if fits else [],
        )
        offered = _offer(random, wanted, random.randint(*level.offered), fits=fits)
        row["responses_create_params"]["tools"] = [tool.schema() for tool in offered]
        steps = tuple(CaseStep(tool=call["name"], arguments=call["arguments"]) for call in row["expected_answers"])
        return Made(row, answer="" if fits else NONE_FITS, steps=steps, key=key)


def _offer(random: Random, wanted: list[MadeTool], count: int, *, fits: bool) -> list[MadeTool]:
    """The functions of a row, those of the same domain first; only of other domains where none is to fit."""
    used, domains = {tool.name for tool in wanted}, {tool.domain for tool in wanted}
    others = [tool for tool in TOOLS if tool.name not in used and (fits or tool.domain not in domains)]
    random.shuffle(others)
    others.sort(key=lambda tool: tool.domain not in domains)
    offered = [*(tool for tool in TOOLS if fits and tool.name in used), *others][:count]
    random.shuffle(offered)
    return offered


def _messages(random: Random, requests: list[str]) -> list[dict[str, Any]]:
    text = requests[0]
    for request in requests[1:]:
        text += random.choice(JOINTS) + request
    opening = random.choice(POLITE)
    end = "?" if requests[-1].split()[0] in QUESTIONS else "."
    prompt = opening + (text if opening else text[0].upper() + text[1:]) + end
    return [{"role": "system", "content": random.choice(SYSTEMS)}, {"role": "user", "content": prompt}]


if __name__ == "__main__":
    raise SystemExit(main(XlamFcGenerator()))
