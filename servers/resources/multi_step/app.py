"""Look up the value of each synonym, then hand in all values in order: many calls, of which the last one counts."""

from typing import Any

from handing_in import handed_in, reachable_values, synonym_value

from gym.server import ResourcesServer, Score, VerifyRequest, tool


class SynonymTask(VerifyRequest):
    id: int
    expected_synonyms: list[str]
    expected_synonym_values: list[int]
    minefield_label: str
    minefield_label_value: int


class MultiStepScore(Score):
    accuracy: bool
    parsed_synonym_values: list[Any]
    set_overlap: float
    original_term_minefield_hit: bool
    order_instruction_following_failure: bool


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

    async def verify(self, rollout: SynonymTask) -> MultiStepScore:
        """1.0 when the last values handed in are the expected ones, in their order."""
        expected = reachable_values(rollout.expected_synonyms, rollout.expected_synonym_values)
        actual, reason = handed_in(rollout.function_calls)
        right = actual == expected and not reason
        known = {value for value in actual if type(value) is int}
        overlap = len(known & set(expected)) / len(expected)
        return MultiStepScore(
            reward=float(right),
            accuracy=right,
            parsed_synonym_values=actual,
            set_overlap=overlap,
            original_term_minefield_hit=rollout.minefield_label in actual or rollout.minefield_label_value in known,
            order_instruction_following_failure=not right and overlap == 1.0,
            reason="" if right else reason or "the values handed in are others",
        )


app = MultiStep.app()
