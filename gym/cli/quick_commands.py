"""Commands that are typed often, in the few forms they are typed in: read without a parser, whose import takes a tenth
of a second of CPU. Any other form is the parser's, and so is every mistake."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gym.cli.sign_of_life import LIFE
from gym.cli.typed_stack import TypedStack, is_stack_name
from gym.labels import DEFAULT_STACK

JSON, STACK = "--json", "--stack"
ENV_STACK: Final = "GYM_STACK"


class Form(NamedTuple):
    words: int = 0  # that follow the name
    of_stack: bool = False
    as_json: bool = True  # whether it can print JSON


FORMS: Final = {
    "list": Form(),
    "info": Form(words=1),
    "ls": Form(),
    "ps": Form(of_stack=True),
    "down": Form(of_stack=True, as_json=False),
}


class QuickCommand(NamedTuple):
    """Its page is in gym.cli.pages."""

    name: str
    words: tuple[str, ...]
    as_json: bool
    stack: str

    def run(self) -> int:
        page = importlib.import_module(f"gym.cli.pages.{self.name}_page")
        form = FORMS[self.name]
        named: dict[str, object] = {"stack": self.stack} if form.of_stack else {}
        if form.as_json:
            named["as_json"] = self.as_json
        with LIFE.of_command(f"gym {self.name}"):
            return int(page.show(*self.words, **named))


def read_quick(arguments: Sequence[str], environ: Mapping[str, str]) -> QuickCommand | None:
    name, *rest = arguments
    form = FORMS.get(name)
    if form is None:
        return None
    as_json = form.as_json and JSON in rest
    if as_json:
        rest.remove(JSON)
    typed = environ.get(ENV_STACK, "")
    if form.of_stack and len(rest) == 2 and rest[0] == STACK:
        typed, rest = rest[1], []
    if len(rest) != form.words or any(one.startswith("-") for one in rest) or (typed and not is_stack_name(typed)):
        return None
    return QuickCommand(name, tuple(rest), as_json, TypedStack(typed) if typed else DEFAULT_STACK)
