"""What a data set is like: the figures of the contract's `_metrics.json`, and those it lacks; rows are streamed."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from gym.data.numbers import Numbers
from gym.data.row_parsing import PARAMS
from gym.data.token_counts import Tokenizer, content_text, open_tokenizer, prompt_text
from gym.data.uniques import Uniques
from gym.data.word_count import count_words
from gym.wire.deep_values import write_sorted

EXAMPLES: Final = "Number of examples"
TOKENS: Final = "Input length in tokens"
_NOT_FIELDS = frozenset({PARAMS, "response"})
_NOT_SAMPLING = frozenset({"input", "instructions", "tools", "temperature", "metadata"})


class FieldStatistics:
    """Of one key of rows: figures of its numbers, counts of its texts."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.texts = Uniques()

    def observe(self, value: object) -> None:
        if isinstance(value, str):
            self.texts.observe(value)
        elif isinstance(value, bool):
            self.numbers.observe(int(value))
        elif isinstance(value, int | float):
            self.numbers.observe(value)

    def add(self, other: FieldStatistics, times: int) -> None:
        self.numbers.add(other.numbers, times)
        self.texts.add(other.texts, times)

    def to_json(self) -> dict[str, float]:
        """A key that has numbers in some rows and texts in others gets both."""
        numbers = self.numbers.to_json() if self.numbers.count else {}
        return {**numbers, **(self.texts.to_json() if self.texts.total else {})}


class Statistics:
    """Observes rows, adds up with others; memory grows with the different values alone (16 bytes for each)."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self.tokenizer = tokenizer or open_tokenizer()
        self.examples = 0
        self.tools, self.words, self.turns = Numbers(), Numbers(), Numbers()
        self.temperature, self.tokens = Numbers(), Numbers()
        self.params, self.messages, self.tool_names = Uniques(), Uniques(), Uniques()
        self.fields: dict[str, FieldStatistics] = {}
        self.sampling: dict[str, FieldStatistics] = {}

    def observe(self, row: dict[str, Any]) -> None:
        params: dict[str, Any] = row[PARAMS]
        compact = write_sorted(params)
        self.examples += 1
        self.words.observe(count_words(params, compact))
        self.params.observe(compact)
        self.tokens.observe(self.tokenizer.count(prompt_text(params)))
        self._observe_input(params)
        for key, value in params.items():
            if key not in _NOT_SAMPLING:
                _observe(self.sampling, key, value)
        for key, value in row.items():
            if key not in _NOT_FIELDS:
                _observe(self.fields, key, value)

    def add(self, other: Statistics, times: int = 1) -> None:
        """As if each row of `other` had been observed `times` times."""
        self.examples += other.examples * times
        for name in ("tools", "words", "turns", "temperature", "tokens", "params", "messages", "tool_names"):
            getattr(self, name).add(getattr(other, name), times)
        for ours, theirs in ((self.fields, other.fields), (self.sampling, other.sampling)):
            for key, field in theirs.items():
                ours.setdefault(key, FieldStatistics()).add(field, times)

    def to_json(self) -> dict[str, Any]:
        """The contract's keys first, in its order; then the fields of rows; then what is ours alone."""
        found: dict[str, Any] = {
            EXAMPLES: self.examples,
            "Number of tools": self.tools.to_json(),
            "Json-dumped number of words (proxy for token count)": self.words.to_json(),
            "Number of turns": self.turns.to_json(),
            "Temperature": self.temperature.to_json(),
        }
        further = {
            TOKENS: self.tokens.to_json(),
            "Tokenizer": self.tokenizer.name,
            "Number of unique create params": self.params.count(),
            "Number of unique user messages": self.messages.count(),
            "Tool names": self.tool_names.to_json(),
            "Sampling parameters": _figures(self.sampling),
        }
        return found | _without(found, _figures(self.fields)) | _without(self.fields, further)

    def _observe_input(self, params: dict[str, Any]) -> None:
        texts = user_messages(params)
        if texts:
            self.turns.observe(len(texts))
        for text in texts:
            self.messages.observe(text)
        tools = params.get("tools")
        if isinstance(tools, list):  # and not "auto": how many those are the server knows
            self.tools.observe(len(tools))
            for tool in tools:
                if type(tool) is dict and type(tool.get("name")) is str:
                    self.tool_names.observe(tool["name"])
        temperature = params.get("temperature")
        if temperature is not None:
            self.temperature.observe(temperature)


def digest(value: object) -> bytes:
    return hashlib.sha1(write_sorted(value), usedforsecurity=False).digest()[:16]


def user_messages(params: dict[str, Any]) -> list[str]:
    given = params.get("input")
    if type(given) is str:
        return [given]
    items = given if type(given) is list else []
    return [content_text(one.get("content")) for one in items if type(one) is dict and one.get("role") == "user"]


def _observe(fields: dict[str, FieldStatistics], key: str, value: object) -> None:
    for one in value if isinstance(value, list) else (value,):
        if one is None or isinstance(one, dict | list):
            continue
        field = fields.get(key)
        if field is None:
            field = fields[key] = FieldStatistics()
        field.observe(one)


def _figures(fields: dict[str, FieldStatistics]) -> dict[str, Any]:
    return {key: field.to_json() for key, field in fields.items()}


def _without(taken: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in taken}
