"""How real judges word a verdict, to rehearse a judged server with: each style with the verdict, or with none to read.

`STYLES["JSON"].render("A", "B")` is a reply that means A, where B is another label; some styles mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gym.server.base import ServerApp
from gym.server.testing import Answered, Caller, running, scripted_judge


@dataclass(frozen=True)
class Style:
    """`{label}` is the verdict that is meant, `{other}` one that is not."""

    text: str
    readable: bool = True

    def render(self, label: str, other: str) -> str:
        return self.text.replace("{label}", label).replace("{other}", other)


_REASON = "The candidate names the same river, and the year agrees with the reference."

STYLES: Final[Mapping[str, Style]] = MappingProxyType(
    {
        "bare": Style("{label}"),
        "bold": Style("**{label}**"),
        "full stop": Style("{label}."),
        "sentence": Style(f"After reviewing both answers, the grade is {{label}}.\n\n{_REASON}"),
        "graded as": Style(f"{_REASON} I'd grade this as {{label}}."),
        "named": Style(f"{_REASON}\n\nGrade: {{label}}"),
        "bold name": Style(f"**Reasoning:** {_REASON}\n\n**Verdict:** {{label}}"),
        "heading": Style(f"## Analysis\n\n{_REASON}\n\n## Verdict\n\n{{label}}\n"),
        "thoughts": Style("<think>Is it {other}? The year differs... no, it is the same.</think>\n{label}"),
        "thinking aloud": Style(
            "Hmm, at first I leaned to {other}. Let me look again.\nThe year is the same.\n\nFinal verdict: {label}"
        ),
        "verdict first": Style(f"{{label}}\n\n{_REASON} That is why {{other}} is not right here."),
        "both quoted": Style(
            f"I have to choose between {{label}} and {{other}}. {_REASON}\nIt is not {{other}}.\n\nVerdict: {{label}}"
        ),
        "choices repeated": Style(f"The options are {{other}} or {{label}}.\n1. {_REASON}\n\n{{label}}"),
        "JSON": Style(f'{{"reasoning": "{_REASON}", "verdict": "{{label}}"}}'),
        "fenced JSON": Style(f'Here you are:\n```json\n{{\n  "grade": "{{label}}",\n  "reason": "{_REASON}"\n}}\n```'),
        "box": Style(f"{_REASON} $\\boxed{{{{label}}}}$"),
        "box with text": Style(f"{_REASON}\n\n\\boxed{{\\text{{{{label}}}}}}"),
        "tags": Style(f"<reason>{_REASON}</reason><verdict>{{label}}</verdict>"),
        "German": Style("Die Antwort nennt denselben Fluss wie die Referenz.\n\nBewertung: {label}"),
        "Chinese": Style("候选答案与参考答案一致。\n评分：{label}"),
        "French": Style("La réponse cite le même fleuve. Le verdict est {label}."),
        "second thoughts": Style(
            "Verdict: {other}\n\nWait, the year is given in the next sentence.\n\nVerdict: {label}"
        ),
        "injection reported": Style(
            'The candidate wrote "Grade: {other}" itself, which I pass over. The answer agrees.\n\nGrade: {label}'
        ),
        "cut off": Style(
            "Let me compare the two answers. The reference names a river in Slovenia, and the candi", False
        ),
        "refusal": Style("I'm sorry, but I can't help with grading this.", False),
        "nothing": Style("", False),
        "undecided": Style("It could be {label} or {other}.", False),
        "denial only": Style("It is not {other}.", False),
    }
)


async def rehearse(
    app: ServerApp, body: Mapping[str, Any], label: str, other: str, **fields: Any
) -> dict[str, float | str]:
    """Style -> the reward of this `/verify` when the judge words the verdict so, or the kind of the failure."""
    async with scripted_judge() as judge:
        own = app.configured({**judge.fields, **fields}, document=judge.document)
        async with running(own) as url, Caller(url) as caller:
            outcomes: dict[str, float | str] = {}
            for name, style in STYLES.items():
                reply = style.render(label, other)
                judge.answer = lambda _, reply=reply: reply
                outcomes[name] = _outcome(await caller.post("/verify", body))
    return outcomes


def expected(reward: float) -> dict[str, float | str]:
    """What `rehearse` has to find: the reward where the verdict can be read, and a failure of the judge where not."""
    return {name: reward if style.readable else "judge" for name, style in STYLES.items()}


def _outcome(answered: Answered) -> float | str:
    error = answered.body.get("error")
    return str(error["kind"]) if error else float(answered.body["reward"])
