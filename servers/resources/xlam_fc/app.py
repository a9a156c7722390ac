"""Function calling: every expected call, and no other, made with the expected arguments."""

from typing import Any

from rows import XlamFcScore, XlamFcTask

from gym.server import ResourcesConfig, ResourcesServer
from gym.wire.calls import greatest_matching, read_arguments, refuse_unoffered, same_json
from gym.wire.items import Item

MAX_CALLS = 1_000  # more are not an answer


class XlamFcConfig(ResourcesConfig):
    strict: bool = False


class Call:
    """A call as it is compared; arguments that are not a JSON object are none."""

    def __init__(self, name: Any, arguments: Any) -> None:
        read = read_arguments(arguments)
        self.name = name if isinstance(name, str) else ""
        self.arguments: dict[str, Any] = read if isinstance(read, dict) else {}

    def answers(self, wanted: "Call", *, strict: bool) -> bool:
        """Strict: no argument of its own invention, and true is not 1."""
        if self.name != wanted.name:
            return False
        if strict:
            return same_json(self.arguments, wanted.arguments)
        given = self.arguments
        return all(key in given and bool(given[key] == value) for key, value in wanted.arguments.items())


class XlamFc(ResourcesServer[None]):
    reverify_mode = "stateless"
    constant_floor = 0.2
    constant_floor_reason = "for one example of five no call is right, and a text makes none"
    config: XlamFcConfig

    async def verify(self, rollout: XlamFcTask) -> XlamFcScore:
        """1.0 when the calls are the expected ones, in any order."""
        names = (one.name for one in rollout.expected_answers)
        refuse_unoffered(names, rollout.responses_create_params.tools, field="expected_answers")
        wanted = [Call(one.name, one.arguments) for one in rollout.expected_answers]
        given = [Call(one.get("name"), one.get("arguments")) for one in rollout.function_calls]
        correct = self.count(wanted, given) if len(given) <= MAX_CALLS else 0
        reason = _reason(rollout.function_calls, rollout.output_text, len(wanted), correct)
        return XlamFcScore(
            reward=float(not reason),
            num_expected=len(wanted),
            num_predicted=len(given),
            num_correct=correct,
            predicted_calls=[{"name": one.name, "arguments": one.arguments} for one in given],
            reason=reason,
        )

    def count(self, wanted: list[Call], given: list[Call]) -> int:
        """How many expected calls were made. Strict pairs them as well as can be; else the first that fits is taken."""
        if self.config.strict:
            return greatest_matching(
                len(wanted), len(given), lambda one, number: given[number].answers(wanted[one], strict=True)
            )
        left = list(given)
        correct = 0
        for one in wanted:
            fitting = next((number for number, call in enumerate(left) if call.answers(one, strict=False)), None)
            if fitting is not None:
                del left[fitting]
                correct += 1
        return correct


def _reason(calls: list[Item], text: str, wanted: int, correct: int) -> str:
    """Why the reward is not full; nothing when it is."""
    if not calls and not text.strip():
        return "there is neither a call nor a message"  # also where no call was wanted: saying so is the answer
    if correct == wanted == len(calls):
        return ""
    return f"{correct} of {wanted} expected calls are among the {len(calls)} made"


app = XlamFc.app()
