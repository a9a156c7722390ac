"""How far a call may be from the expected one: what `tool_call_comparator_config` says, and why a step fell short."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

RewardMode = Literal["binary_strict", "fractional", "f1"]


class Category(StrEnum):
    """`category` of a reply: where a step fell short. The words are ours; the rewards are the contract's."""

    NO_ACTION = "no_action"
    NO_CALL = "no_call"
    MESSAGE = "expected_message"
    NO_MESSAGE = "call_instead_of_message"
    OTHER_MESSAGE = "message_about_something_else"
    CALL = "expected_call"
    CALLS = "expected_calls"
    OTHER_COUNT = "other_number_of_calls"
    OTHER_TOOL = "other_tool"
    NO_JSON = "arguments_are_no_json"
    OTHER_TYPE = "value_of_another_type"
    OTHER_KEYS = "other_keys"
    OTHER_LENGTH = "list_of_another_length"
    OTHER_VALUE = "other_value"
    LIST_FAR = "list_too_far_off"
    LIST_NEAR = "list_partly_right"
    LIST_WEAK = "list_not_close_enough"
    LIST_MALFORMED = "list_of_other_items"
    NOT_DECLARED = "tool_not_declared"
    NOT_CONFORMING = "arguments_against_the_schema"


class Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArgumentFilter(Rules):
    included_argument_names: list[str] | None = None


class ArgumentRules(Rules):
    """For one argument of one tool and for what is inside of it; what is not given is as for all."""

    word_count_similarity_threshold: float | None = None
    word_count_min_precision: float | None = None
    word_count_min_recall: float | None = None
    word_count_max_actual_to_expected_ratio: float | None = None
    word_count_max_unmatched_actual_words: int | None = None
    list_f1_relaxed_min_expected_len: int | None = None
    list_f1_max_unmatched_expected: int | None = None
    list_f1_max_unmatched_actual: int | None = None
    keep_quotes: bool | None = None
    coerce_actual_string_to_list: bool = False
    coerce_actual_string_to_singleton_list: bool = False
    validate_list_item_schema: bool = False
    reject_empty_string_list_items: bool = False

    def admits_words(self, shared: int, wanted: int, given: int) -> bool:
        return (
            _at_least(shared / given, self.word_count_min_precision)
            and _at_least(shared / wanted, self.word_count_min_recall)
            and _at_most(given / wanted, self.word_count_max_actual_to_expected_ratio)
            and _at_most(given - shared, self.word_count_max_unmatched_actual_words)
        )

    def is_relaxed(self, wanted: int) -> bool:
        """Whether a list of so many is admitted by how many miss or are too many, instead of by shares."""
        return self.list_f1_relaxed_min_expected_len is not None and wanted >= self.list_f1_relaxed_min_expected_len

    def admits_items(self, matched: int, wanted: int, given: int) -> bool:
        return _at_most(wanted - matched, self.list_f1_max_unmatched_expected) and _at_most(
            given - matched, self.list_f1_max_unmatched_actual
        )


NO_RULES = ArgumentRules()


class CommonRules(Rules):
    """What holds for one call and for several."""

    word_count_similarity_threshold: float = 0.1  # shared words over the words of both texts: 0.5 at the most
    floating_point_comparison_threshold: float = 1e-6
    parallel_tool_call_rewarding: bool | None = None
    allow_subset: bool = False
    allow_superset: bool = False
    parallel_tool_call_reward_mode: RewardMode = "binary_strict"

    @property
    def counts_calls(self) -> bool:
        """Where it is not said: when one of the settings is given that have no meaning otherwise."""
        if self.parallel_tool_call_rewarding is not None:
            return self.parallel_tool_call_rewarding
        return bool(self.model_fields_set & {"allow_subset", "allow_superset", "parallel_tool_call_reward_mode"})


class ComparatorConfig(CommonRules):
    """And what holds for one call beside one expected call only."""

    use_f1_for_list: bool = False
    list_f1_threshold: float = 0.5
    use_list_f1_threshold: bool = True
    use_strong_list_reward: bool = False
    list_f1_min_precision: float = 1.0
    list_f1_min_recall: float = 1.0
    list_f1_max_actual_to_expected_ratio: float = 1.0
    list_f1_reject_duplicate_actual_values: bool = True
    keep_quotes: bool = False
    argument_filters: dict[str, ArgumentFilter] | None = None
    argument_comparison_overrides: dict[str, dict[str, ArgumentRules]] | None = None
    validate_against_declared_tool_schema: bool = False

    def for_several(self) -> ComparatorConfig:
        return ComparatorConfig.model_validate(self.model_dump(include=set(CommonRules.model_fields)))

    def filter_of(self, tool: str) -> list[str] | None:
        kept = (self.argument_filters or {}).get(tool)
        return None if kept is None else kept.included_argument_names

    def rules_of(self, tool: str, argument: str) -> ArgumentRules:
        return (self.argument_comparison_overrides or {}).get(tool, {}).get(argument, NO_RULES)


def _at_least(value: float, least: float | None) -> bool:
    return least is None or value >= least


def _at_most(value: float, maximum: float | None) -> bool:
    return maximum is None or value <= maximum
