"""A tool call beside the expected one: its name, its keys, its values by their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from rules import NO_RULES, ArgumentRules, Category, ComparatorConfig
from texts import says_the_same, words_of

from gym.wire.calls import greatest_matching, read_arguments

MAX_PAIRS = 40_000  # of list elements that are compared with one another


class Verdict(NamedTuple):
    score: float
    category: Category | None = None


class Call(NamedTuple):
    """`arguments` is None where they are not JSON."""

    name: Any
    arguments: Any


class Scope(NamedTuple):
    """Where a value stands: in which tool's arguments (none inside of plain lists), and under which rules."""

    tool: str | None = None
    rules: ArgumentRules = NO_RULES


SAME = Verdict(1.0)
ANYWHERE = Scope()


class Comparator:
    def __init__(self, config: ComparatorConfig, *, strict: bool = False) -> None:
        self.config = config
        self.strict = strict

    def compare_call(self, wanted: Call, given: Call) -> Verdict:
        if given.name != wanted.name:
            return Verdict(0.0, Category.OTHER_TOOL)
        if given.arguments is None:
            return Verdict(0.0, Category.NO_JSON)
        names = self.config.filter_of(wanted.name)
        try:
            verdict = self.compare(_only(wanted.arguments, names), _only(given.arguments, names), Scope(wanted.name))
        except RecursionError:
            return Verdict(0.0, Category.NO_JSON)
        return Verdict(1.0, Category.CALL) if verdict.score == 1.0 else verdict

    def compare(self, wanted: Any, given: Any, scope: Scope = ANYWHERE) -> Verdict:
        """1.0 when a value may pass for the expected one; in between only by lists that are scored so."""
        if not self._of_one_type(wanted, given):
            return Verdict(0.0, Category.OTHER_TYPE)
        if isinstance(wanted, dict):
            return self._compare_objects(wanted, given, scope)
        if isinstance(wanted, list):
            return self._compare_lists(wanted, given, scope)
        return SAME if self._passes(wanted, given, scope.rules) else Verdict(0.0, Category.OTHER_VALUE)

    def _of_one_type(self, wanted: Any, given: Any) -> bool:
        if not self.strict:
            return isinstance(given, type(wanted))
        return type(wanted) is type(given) or (_is_number(wanted) and _is_number(given))

    def _compare_objects(self, wanted: dict[str, Any], given: dict[str, Any], scope: Scope) -> Verdict:
        if wanted.keys() != given.keys():
            return Verdict(0.0, Category.OTHER_KEYS)
        for key, value in wanted.items():
            inner = self._enter(scope, key)
            verdict = self.compare(value, _as_list(value, given[key], inner.rules), inner)
            if verdict.score < 1.0:
                return verdict
        return SAME

    def _enter(self, scope: Scope, key: str) -> Scope:
        """Rules hold for all that is inside; a tool's argument is found by its name at any depth."""
        if scope.tool is None or scope.rules is not NO_RULES:
            return scope
        return Scope(scope.tool, self.config.rules_of(scope.tool, key))

    def _compare_lists(self, wanted: list[Any], given: list[Any], scope: Scope) -> Verdict:
        if not _has_items_like(wanted, given, scope.rules):
            return Verdict(0.0, Category.LIST_MALFORMED)
        if self.config.use_f1_for_list:
            return self._compare_by_f1(wanted, given, scope)
        if len(wanted) != len(given):
            return Verdict(0.0, Category.OTHER_LENGTH)
        verdicts = (self.compare(*pair) for pair in zip(wanted, given, strict=True))
        return next((one for one in verdicts if one.score < 1.0), SAME)

    def _compare_by_f1(self, wanted: list[Any], given: list[Any], scope: Scope) -> Verdict:
        if not wanted and not given:
            return SAME
        if not wanted or not given or len(wanted) * len(given) > MAX_PAIRS:
            return Verdict(0.0, Category.LIST_FAR)
        matched = greatest_matching(
            len(wanted), len(given), lambda one, other: self.compare(wanted[one], given[other], scope).score == 1.0
        )
        if self.config.use_strong_list_reward:
            is_strong = self._is_strong(matched, len(wanted), given, scope.rules)
            return SAME if is_strong else Verdict(0.0, Category.LIST_WEAK)
        f1 = _f1(matched, len(wanted), len(given))
        if f1 >= (self.config.list_f1_threshold if self.config.use_list_f1_threshold else 1.0):
            return SAME
        if self.config.use_list_f1_threshold or not matched:
            return Verdict(0.0, Category.LIST_FAR)
        return Verdict(f1, Category.LIST_NEAR)

    def _is_strong(self, matched: int, wanted: int, given: list[Any], rules: ArgumentRules) -> bool:
        """Enough of the expected elements, little beside them, and none twice."""
        config = self.config
        if config.list_f1_reject_duplicate_actual_values and _has_twice(given):
            return False
        if rules.is_relaxed(wanted):
            return rules.admits_items(matched, wanted, len(given))
        return (
            _f1(matched, wanted, len(given)) >= config.list_f1_threshold
            and matched / len(given) >= config.list_f1_min_precision
            and matched / wanted >= config.list_f1_min_recall
            and len(given) / wanted <= config.list_f1_max_actual_to_expected_ratio
        )

    def _passes(self, wanted: Any, given: Any, rules: ArgumentRules) -> bool:
        if isinstance(wanted, str):
            return self._is_alike(wanted, given, rules)
        if isinstance(wanted, float) or (self.strict and _is_number(wanted)):
            return _is_near(wanted, given, self.config.floating_point_comparison_threshold)
        return bool(wanted == given)

    def _is_alike(self, wanted: str, given: str, rules: ArgumentRules) -> bool:
        if self.strict:
            return says_the_same(wanted, given)
        config = self.config
        keep_quotes = config.keep_quotes if rules.keep_quotes is None else rules.keep_quotes
        words, others = words_of(wanted, keep_quotes=keep_quotes), words_of(given, keep_quotes=keep_quotes)
        if words.total() < 2 or others.total() < 2:
            return wanted == given
        shared, least = (words & others).total(), rules.word_count_similarity_threshold
        if shared / (words.total() + others.total()) < (
            config.word_count_similarity_threshold if least is None else least
        ):
            return False
        return rules.admits_words(shared, words.total(), others.total())


def read_call(name: Any, arguments: Any) -> Call:
    return Call(name, read_arguments(arguments) if isinstance(arguments, str) else None)


def _only(arguments: Any, names: Sequence[str] | None) -> Any:
    if names is None or not isinstance(arguments, dict):
        return arguments
    return {key: value for key, value in arguments.items() if key in names}


def _as_list(wanted: Any, given: Any, rules: ArgumentRules) -> Any:
    """A list that was given as its JSON text, or as its one element, where the rules say that it may be."""
    if not isinstance(wanted, list) or not isinstance(given, str):
        return given
    if rules.coerce_actual_string_to_list and isinstance(read := read_arguments(given), list):
        return read
    if rules.coerce_actual_string_to_singleton_list and len(wanted) == 1:
        text = given.strip()
        return [text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text]
    return given


def _has_items_like(wanted: list[Any], given: list[Any], rules: ArgumentRules) -> bool:
    types = {type(one) for one in wanted}
    if not rules.validate_list_item_schema or len(types) != 1:
        return True
    if any(type(one) not in types for one in given):
        return False
    return not (rules.reject_empty_string_list_items and any(isinstance(one, str) and not one.strip() for one in given))


def _f1(matched: int, wanted: int, given: int) -> float:
    precision, recall = matched / given, matched / wanted
    return 2 * precision * recall / (precision + recall) if matched else 0.0


def _has_twice(values: list[Any]) -> bool:
    return len({orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in values}) < len(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_near(wanted: float, given: float, threshold: float) -> bool:
    try:
        return wanted == given or abs(given - wanted) < threshold
    except OverflowError:  # an int that no float can hold
        return False
