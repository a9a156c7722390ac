"""An engine and a tokenizer as trainers hold them, made of plain Python: one id a character, marks of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import orjson

MARKS = ("<|end|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|system|>")
PART = re.compile("|".join(map(re.escape, MARKS)) + "|.", re.DOTALL)
END = 0


class CharTokenizer:
    eos_token_id = END

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [self._id(one) for one in PART.findall(text)]}

    def apply_chat_template(
        self, messages: Sequence[dict[str, Any]], *, add_generation_prompt: bool, tools: Any = None, **_: Any
    ) -> str:
        turns = [f"<|system|>{len(tools)} tools<|end|>\n"] if tools else []
        for one in messages:
            calls = [orjson.dumps(call["function"]["arguments"]).decode() for call in one.get("tool_calls") or ()]
            turns.append(f"<|{one['role']}|>{one['content']}{''.join(calls)}<|end|>\n")
        return "".join(turns) + ("<|assistant|>" if add_generation_prompt else "")

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(self._text(one, skip_special_tokens) for one in ids)

    def _id(self, text: str) -> int:
        return MARKS.index(text) if text in MARKS else ord(text)

    def _text(self, one: int, skip: bool) -> str:
        return ("" if skip else MARKS[one]) if one < len(MARKS) else chr(one)


def params(max_tokens: int | None = None, logprobs: int | None = 1) -> SimpleNamespace:
    return SimpleNamespace(max_tokens=max_tokens, logprobs=logprobs, temperature=1.0)


@dataclass
class FakeEngine:
    """Says `words` one after the other, each to its end or the limit. Each id has a log-prob of its own."""

    words: list[str]
    asked: list[tuple[list[int], Any]] = field(default_factory=list)

    async def generate(self, prompt: list[int], params: Any) -> Any:
        self.asked.append((prompt, params))
        ids = CharTokenizer()(self.words[(len(self.asked) - 1) % len(self.words)] + "<|end|>")["input_ids"]
        made = ids[: params.max_tokens]
        chances = [{one: SimpleNamespace(logprob=-one / 1000), 7: SimpleNamespace(logprob=-9.0)} for one in made]
        reason = "stop" if made == ids else "length"
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=made, logprobs=chances, finish_reason=reason)])
