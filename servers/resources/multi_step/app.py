"""Look up the value of each synonym, then hand in all values in order: many calls, of which the last one counts."""

from typing import Any

import orjson

from gym.server import ResourcesServer, VerifyRequest, tool
from gym.wire.failures import RolloutError
from gym.wire.items import Item


class SynonymTask(VerifyRequest):
    id: int
    expected_synonyms: list[str]
    expected_synonym_values: list[int]
    minefield_label: str
    minefield_label_value: int


class MultiStep(ResourcesServer[None]):
    reverify_mode = "stateless"

    @tool
    async def get_synonym_value(self, synonym: str) -> dict[str, int]:
        """Get the value of one synonym."""
        return {"synonym_value": synonym_value(synonym)}

    @tool
    async def extract_synonym_values(self, synonym_values: list[int]) -> dict[str, bool]:
        """Hand in the values of all synonyms, in the order in which the synonyms were given."""
        return {"success": True}

    async def verify(self, rollout: SynonymTask) -> dict[str, Any]:
        """1.0 when the last values handed in are the expected ones, in their order."""
        expected = refuse_unreachable(rollout)
        actual, reason = handed_in(rollout.function_calls)
        right = actual == expected and not reason
        known = {value for value in actual if type(value) is int}
        overlap = len(known & set(expected)) / len(expected)
        fields = {
            "reward": float(right),
            "accuracy": right,
            "parsed_synonym_values": actual,
            "set_overlap": overlap,
            "original_term_minefield_hit": rollout.minefield_label in actual or rollout.minefield_label_value in known,
            "order_instruction_following_failure": not right and overlap == 1.0,
        }
        return fields if right else {**fields, "reason": reason or "the values handed in are others"}


def refuse_unreachable(task: SynonymTask) -> list[int]:
    """The expected values, where they are those that the tool gives for the expected synonyms."""
    values = [synonym_value(synonym) for synonym in task.expected_synonyms]
    if not values:
        raise RolloutError("row", "expected_synonyms: the list is empty, so nothing can be right")
    if values != task.expected_synonym_values:
        found = task.expected_synonym_values
        raise RolloutError(
            "row", f"expected_synonym_values: the tool gives {values} for expected_synonyms, not {found}"
        )
    return values


def synonym_value(synonym: str) -> int:
    return sum(ord(letter) for letter in synonym)


def handed_in(calls: list[Item]) -> tuple[list[Any], str]:
    """The values of the last extract_synonym_values call, and what is wrong with them."""
    for call in reversed(calls):
        if call.get("name") == "extract_synonym_values":
            return parse_values(call.get("arguments"))
    return [], "extract_synonym_values was never called"


def parse_values(arguments: Any) -> tuple[list[Any], str]:
    try:
        parsed = orjson.loads(arguments)
    except (orjson.JSONDecodeError, TypeError):
        return [], "the arguments of extract_synonym_values are not JSON"
    values = parsed.get("synonym_values") if isinstance(parsed, dict) else None
    if not isinstance(values, list):
        return [], "synonym_values is not a list"
    values = [int(one) if isinstance(one, float) and one.is_integer() else one for one in values]  # 711.0 is one
    return values, "" if all(type(value) is int for value in values) else "synonym_values holds more than integers"


app = MultiStep.app()
