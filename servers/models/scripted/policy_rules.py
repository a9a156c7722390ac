"""Rules of the scripted policy: the first one that matches the conversation and can be filled decides the reply.

A rule that calls makes the calls that are not made yet since the last user message, then lets the next rule speak.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from policy_template import BadTemplateError, CannotFillError, Fill, compile_text, compile_value

from gym.errors import ConfigError, Problem
from gym.wire import items
from gym.wire.failures import RolloutError
from gym.wire.items import Item
from gym.wire.json_text import parse_or

RULE_KEYS = ("when", "call", "for_each", "in", "say", "think", "incomplete", "fail")
WHEN_KEYS = ("user", "system", "output", "tools", "called", "after", "model")
PATTERNS = ("user", "system", "output")


@dataclass(frozen=True)
class Decision:
    """What the policy answers."""

    output: list[Item]
    incomplete: str = ""


class Conversation:
    """A request as rules see it: the last user message, and the calls and tool outputs since."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params
        self.outputs: list[str] = []
        self.calls: list[str] = []
        self.user = self._read(params.get("input"))

    def _read(self, asked: Any) -> str:
        if isinstance(asked, str):
            return asked
        user = ""
        for item in reversed(asked or ()):
            kind = item.get("type") or "message"
            if kind == "function_call_output":
                self.outputs.append(_text(item.get("output")))
            elif kind == "function_call":
                self.calls.append(str(item.get("name")))
            elif kind == "message" and item.get("role") == "user":
                user = items.item_text(item)
                break
        self.outputs.reverse()
        self.calls.reverse()
        return user

    @cached_property
    def tools(self) -> dict[str, Item]:
        if self.params.get("tool_choice") == "none":
            return {}
        return {str(tool.get("name")): tool for tool in self.params.get("tools") or ()}

    @cached_property
    def system(self) -> str:
        asked = self.params.get("input")
        given = [str(self.params["instructions"])] if self.params.get("instructions") else []
        if isinstance(asked, list):
            given += [items.item_text(one) for one in asked if one.get("role") in ("system", "developer")]
        return "\n\n".join(given)

    @cached_property
    def parsed(self) -> list[Any]:
        return [parse_or(output, output) for output in self.outputs]

    @property
    def output(self) -> str:
        return self.outputs[-1] if self.outputs else ""

    @property
    def one_at_a_time(self) -> bool:
        return self.params.get("parallel_tool_calls") is False


@dataclass(frozen=True)
class Rule:
    when: Mapping[str, Any]
    patterns: Mapping[str, re.Pattern[str]]
    tools: frozenset[str]
    calls: tuple[tuple[str, Fill], ...]
    for_each: re.Pattern[str] | None
    within: Fill
    say: Fill | None
    think: Fill | None
    incomplete: str
    fail: Fill | None

    def decide(self, talk: Conversation) -> Decision | None:
        """A reply; None when the rule does not apply."""
        groups = self._match(talk)
        if groups is None:
            return None
        try:
            return self._act(talk, groups)
        except CannotFillError:
            return None

    def _match(self, talk: Conversation) -> dict[str, Any] | None:
        if self.tools and not self.tools <= talk.tools.keys():
            return None
        if not self._fits(talk):
            return None
        groups: dict[str, Any] = {"user": talk.user}
        for key, pattern in self.patterns.items():
            found = pattern.search(getattr(talk, key))
            if found is None:
                return None
            groups.update(found.groupdict())
        if talk.outputs:
            groups.update(output=talk.parsed[-1], outputs=talk.parsed)
        return groups

    def _fits(self, talk: Conversation) -> bool:
        after = self.when.get("after")
        if after is not None and (not talk.outputs if after == "tools" else len(talk.outputs) != after):
            return False
        if "called" in self.when and (not talk.calls or talk.calls[-1] != self.when["called"]):
            return False
        return "model" not in self.when or talk.params.get("model") == self.when["model"]

    def _act(self, talk: Conversation, groups: dict[str, Any]) -> Decision | None:
        if self.fail is not None:
            raise RolloutError("model", str(self.fail(groups)), retryable=False)
        calls = self._calls_left(talk, groups) if self.calls else []
        if self.calls and not calls:
            return None
        output = [items.reasoning(str(self.think(groups)))] if self.think else []
        if self.say is not None:
            said = self.say(groups)
            output.append(items.message(said if isinstance(said, str) else orjson.dumps(said).decode()))
        output += [items.function_call(name, orjson.dumps(arguments).decode()) for name, arguments in calls]
        return Decision(output, self.incomplete)

    def _calls_left(self, talk: Conversation, groups: dict[str, Any]) -> list[tuple[str, Any]]:
        made = Counter(talk.calls)
        left = []
        for name, fill, values in self._planned(groups):
            if made[name] > 0:
                made[name] -= 1
                continue
            left.append((name, fill(values)))
            if talk.one_at_a_time:
                break
        return left

    def _planned(self, groups: dict[str, Any]) -> Iterator[tuple[str, Fill, dict[str, Any]]]:
        if self.for_each is None:
            yield from ((name, fill, groups) for name, fill in self.calls)
            return
        for found in self.for_each.finditer(str(self.within(groups))):
            values = {**groups, "match": found[0], **found.groupdict()}
            yield from ((name, fill, values) for name, fill in self.calls)


def compile_rules(written: list[Any]) -> tuple[Rule, ...]:
    """All rules, or all that is wrong with them at once."""
    rules, problems = [], []
    for number, one in enumerate(written):
        try:
            rules.append(_compile_rule(one))
        except (BadTemplateError, re.error, TypeError, ValueError) as error:
            problems.append(Problem(what=str(error), key=f"rules[{number}]"))
    if problems:
        raise ConfigError(problems, "The README of the scripted model describes every key of a rule.")
    return tuple(rules)


def fallback(talk: Conversation) -> Decision:
    """Tools and nothing called yet: the first one, with arguments made from its schema. Else a final word."""
    if talk.tools and not talk.calls and not talk.outputs:
        name, tool = next(iter(talk.tools.items()))
        schema = tool.get("parameters") or {}
        arguments = sample(schema, schema.get("$defs") or {})
        return Decision([items.function_call(name, orjson.dumps(arguments or {}).decode())])
    return Decision([items.message("Done.")])


def sample(schema: Any, defs: Mapping[str, Any], depth: int = 0) -> Any:
    """The plainest value that fits a JSON schema."""
    if not isinstance(schema, dict) or depth > 8:
        return None
    if "$ref" in schema:
        return sample(defs.get(str(schema["$ref"]).rpartition("/")[2]), defs, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample(schema[key][0], defs, depth + 1)
    return _sample_of_kind(schema, defs, depth)


def _sample_of_kind(schema: dict[str, Any], defs: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties") or {}
        wanted = schema.get("required", fields)
        return {key: sample(fields[key], defs, depth + 1) for key in wanted if key in fields}
    if kind == "array":
        return [sample(schema.get("items"), defs, depth + 1) for _ in range(max(1, schema.get("minItems") or 0))]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(str(kind), "text")


def _compile_rule(written: Any) -> Rule:
    if not isinstance(written, dict):
        raise TypeError(f"a rule is a mapping, found {written!r}")
    _check_keys(written, RULE_KEYS)
    when = written.get("when") or {}
    _check_keys(when, WHEN_KEYS)
    patterns = {key: re.compile(str(when[key])) for key in PATTERNS if key in when}
    for_each = re.compile(str(written["for_each"])) if "for_each" in written else None
    outer = [name for pattern in patterns.values() for name in pattern.groupindex]
    names = [*outer, "match", *(for_each.groupindex if for_each else ())]
    calls = written.get("call") or []
    if not (calls or {"say", "incomplete", "fail"} & written.keys()):
        raise ValueError("a rule does something: call, say, incomplete or fail")
    if for_each and not calls:
        raise ValueError("for_each says how often to `call`, which is missing")
    tools = when.get("tools") or []
    return Rule(
        when=when,
        patterns=patterns,
        tools=frozenset([tools] if isinstance(tools, str) else tools),
        calls=tuple(_compile_call(call, names) for call in ([calls] if isinstance(calls, dict) else calls)),
        for_each=for_each,
        within=compile_text(str(written.get("in", "{user}")), outer),
        say=compile_text(str(written["say"]), outer) if "say" in written else None,
        think=compile_text(str(written["think"]), outer) if "think" in written else None,
        incomplete=str(written.get("incomplete") or ""),
        fail=compile_text(str(written["fail"]), outer) if "fail" in written else None,
    )


def _compile_call(call: Any, names: list[str]) -> tuple[str, Fill]:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise TypeError(f"a call is {{name: ..., arguments: ...}}, found {call!r}")
    _check_keys(call, ("name", "arguments"))
    return call["name"], compile_value(call.get("arguments") or {}, names)


def _check_keys(written: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in written:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"`{key}` is not known; {hint}")


def _text(output: Any) -> str:
    return output if isinstance(output, str) else items.item_text({"content": output})
