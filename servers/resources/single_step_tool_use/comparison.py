"""A tool call beside the expected one: its name, its keys, its values by their types."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from gym.wire.calls import greatest_matching, read_arguments

MAX_PAIRS = 250_000  # of list elements that are compared with one another
NOT_COMPARED = "goal"  # a free text by which a policy explains its call
RewardMode = Literal["binary_strict", "fractional", "f1"]


class ArgumentFilter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    included_argument_names: list[str] | None = None


class ComparatorConfig(BaseModel):
    """How far an argument may be from the expected one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    word_count_similarity_threshold: float = 0.1  # shared words over the words of both texts: 0.5 at the most
    floating_point_comparison_threshold: float = 1e-6
    use_f1_for_list: bool = False
    list_f1_threshold: float = 0.5
    use_list_f1_threshold: bool = True
    keep_quotes: bool = False
    argument_filters: dict[str, ArgumentFilter] = Field(default_factory=dict)
    allow_subset: bool = False
    allow_superset: bool = False
    parallel_tool_call_reward_mode: RewardMode = "binary_strict"


class Verdict(NamedTuple):
    score: float
    category: str = ""


SAME = Verdict(1.0)
DIFFERENT = Verdict(0.0, "argument_value_different")
OTHER_TYPE = Verdict(0.0, "argument_value_type_different")


class Comparator:
    def __init__(self, config: ComparatorConfig, *, strict: bool = False) -> None:
        self.config = config
        self.strict = strict

    def compare_call(self, name: str, arguments: Any, given_name: Any, given_arguments: Any) -> Verdict:
        if given_name != name:
            return Verdict(0.0, "unexpected_tool")
        given = read_arguments(given_arguments) if isinstance(given_arguments, str) else None
        if given is None:
            return Verdict(0.0, "arguments_decode_error")
        kept = self.config.argument_filters.get(name)
        if kept is not None and kept.included_argument_names is not None:
            names = kept.included_argument_names
            arguments, given = _only(arguments, names), _only(given, names)
        try:
            verdict = self.compare(arguments, given)
        except RecursionError:
            return Verdict(0.0, "arguments_decode_error")
        return Verdict(1.0, "expected_tool_call") if verdict.score == 1.0 else verdict

    def compare(self, wanted: Any, given: Any) -> Verdict:
        """1.0 when a value may pass for the expected one."""
        if not self._of_one_type(wanted, given):
            return OTHER_TYPE
        if isinstance(wanted, dict):
            return self._compare_objects(wanted, given)
        if isinstance(wanted, list):
            return (
                self._compare_by_f1(wanted, given) if self.config.use_f1_for_list else self._compare_all(wanted, given)
            )
        if isinstance(wanted, str):
            return SAME if self._alike(wanted, given) else DIFFERENT
        if isinstance(wanted, float) or (self.strict and _is_number(wanted)):
            return SAME if _near(wanted, given, self.config.floating_point_comparison_threshold) else DIFFERENT
        return SAME if wanted == given else DIFFERENT

    def _of_one_type(self, wanted: Any, given: Any) -> bool:
        if not self.strict:
            return isinstance(given, type(wanted))
        return type(wanted) is type(given) or (_is_number(wanted) and _is_number(given))

    def _compare_objects(self, wanted: dict[str, Any], given: dict[str, Any]) -> Verdict:
        if wanted.keys() != given.keys():
            return Verdict(0.0, "argument_object_keys_different")
        pairs = ((value, given[key]) for key, value in wanted.items() if self.strict or key != NOT_COMPARED)
        return next((found for one in pairs if (found := self.compare(*one)).score < 1.0), SAME)

    def _compare_all(self, wanted: list[Any], given: list[Any]) -> Verdict:
        if len(wanted) != len(given):
            return Verdict(0.0, "argument_list_length_different")
        pairs = zip(wanted, given, strict=True)
        return next((found for one in pairs if (found := self.compare(*one)).score < 1.0), SAME)

    def _compare_by_f1(self, wanted: list[Any], given: list[Any]) -> Verdict:
        if not wanted and not given:
            return SAME
        if not wanted or not given or len(wanted) * len(given) > MAX_PAIRS:
            return Verdict(0.0, "argument_list_f1_below_threshold")
        matched = greatest_matching(
            len(wanted), len(given), lambda one, other: self.compare(wanted[one], given[other]).score == 1.0
        )
        f1 = 2 * matched / (len(wanted) + len(given))
        least = self.config.list_f1_threshold if self.config.use_list_f1_threshold else 1.0
        if f1 >= least:
            return SAME
        if self.config.use_list_f1_threshold or not matched:
            return Verdict(0.0, "argument_list_f1_below_threshold")
        return Verdict(f1, "argument_list_f1_partial")

    def _alike(self, wanted: str, given: str) -> bool:
        if self.strict:
            return wanted.lower().split() == given.lower().split()
        split = split_keeping_quotes if self.config.keep_quotes else str.split
        words, others = Counter(split(wanted.lower())), Counter(split(given.lower()))
        if words.total() < 2 or others.total() < 2:
            return wanted == given
        shared = (words & others).total()
        return shared / (words.total() + others.total()) >= self.config.word_count_similarity_threshold


def split_keeping_quotes(text: str) -> list[str]:
    """Words, and runs in quotes as one word with their quotes; where a quote never closes, quotes are dropped."""
    words: list[str] = []
    outside, at = "", 0
    while at < len(text):
        quote = text[at]
        if quote not in "\"'":
            outside += quote
            at += 1
            continue
        end = text.find(quote, at + 1)
        if end < 0:
            return text.replace('"', "").replace("'", "").split()
        words += [*outside.split(), text[at : end + 1]]
        outside, at = "", end + 1
    return [*words, *outside.split()]


def _only(arguments: Any, names: list[str]) -> Any:
    return (
        {key: value for key, value in arguments.items() if key in names} if isinstance(arguments, dict) else arguments
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _near(wanted: float, given: float, threshold: float) -> bool:
    try:
        return wanted == given or abs(given - wanted) < threshold
    except OverflowError:  # an int that no float can hold
        return False
