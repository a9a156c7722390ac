"""Which part of a reply is the answer, or the action: set by an instance's configuration."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym.server.slots import last_box, last_pair

Part = Literal["whole", "boxed", "tag", "last_line", "code", "pattern"]
_FENCE: Final = re.compile(r"```[\w+-]*[ \t]*\n(.*?)\n?```", re.DOTALL)
_HOW: Final[dict[Part, str]] = {
    "whole": "as your whole reply",
    "boxed": "inside \\boxed{{}}",
    "tag": "between <{tag}> and </{tag}>",
    "last_line": "on the last line",
    "code": "in a block of ```",
    "pattern": "so that it matches {pattern}",
}


class TextFormat(BaseModel):
    """`{take: tag, tag: action}`. The last one counts where there are several, and one that is empty is none."""

    model_config = ConfigDict(extra="forbid")

    take: Part = "whole"
    tag: str = "action"
    pattern: str = ""  # of Python's `re`; its first group is the answer, else all that it matches
    words: dict[str, str] = Field(default_factory=dict)  # what a word stands for: {left: "0"}; others pass unchanged

    @model_validator(mode="after")
    def _check_pattern(self) -> TextFormat:
        if self.take == "pattern" and not self.pattern:
            raise ValueError("take: pattern needs a `pattern`")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern: {error}") from None
        return self

    @property
    def instruction(self) -> str:
        """How to write it, for a reply without any."""
        return f"Write it {_HOW[self.take].format(tag=self.tag, pattern=self.pattern)}."

    def find(self, text: str) -> str:
        """The part, or "" where there is none."""
        found = self._part(text).strip()
        return self.words.get(found, self.words.get(found.lower(), found)) if self.words else found

    def _part(self, text: str) -> str:
        if self.take == "whole":
            return text
        if self.take == "boxed":
            box = last_box(text)
            return box.content if box else ""
        if self.take == "tag":
            pair = last_pair(text, self.tag)
            return pair.content if pair else ""
        if self.take == "last_line":
            return next((line for line in reversed(text.splitlines()) if line.strip()), "")
        if self.take == "code":
            return _last(_FENCE.finditer(text), 1)
        compiled = re.compile(self.pattern)
        return _last(compiled.finditer(text), 1 if compiled.groups else 0)


def _last(matches: Any, group: int) -> str:
    found = ""
    for match in matches:
        found = match.group(group) or ""
    return found
