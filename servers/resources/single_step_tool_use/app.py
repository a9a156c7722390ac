"""The next step of a conversation, compared with an expert's: a tool call, several at once, or a message."""

from typing import Annotated, Any, Literal

from comparison import Comparator, ComparatorConfig, Verdict
from pydantic import AfterValidator, Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.wire.calls import greatest_matching, read_arguments
from gym.wire.items import Item
from gym.wire.rows import Tolerant

MAX_CALLS = 200  # in one step


def _is_object(text: str) -> str:
    if not isinstance(read_arguments(text), dict):
        raise ValueError("the JSON text of an object is needed")
    return text


class ExpectedMessage(Tolerant):
    type: Literal["message"]
    content: str


class ExpectedCall(Tolerant):
    type: Literal["function_call"]
    name: str
    arguments: Annotated[str, AfterValidator(_is_object)]


class ExpectedCalls(Tolerant):
    type: Literal["function_call_batch"]
    calls: list[ExpectedCall] = Field(min_length=1)


class SingleStepConfig(ResourcesConfig):
    tool_call_comparator_config: ComparatorConfig = ComparatorConfig()
    strict: bool = False


class SingleStepTask(VerifyRequest):
    expected_action: Annotated[ExpectedMessage | ExpectedCall | ExpectedCalls, Field(discriminator="type")]


class SingleStepToolUse(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: SingleStepConfig

    def __init__(self, config: SingleStepConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.rules = config.tool_call_comparator_config
        self.strict = config.strict
        self.comparator = Comparator(self.rules, strict=config.strict)

    async def verify(self, rollout: SingleStepTask) -> dict[str, Any]:
        """1.0 when the step may pass for the expected one."""
        verdict = self.judge(rollout.expected_action, rollout.function_calls, rollout.output_text)
        fields = {"reward": verdict.score, "category": verdict.category}
        return fields if verdict.score == 1.0 else {**fields, "reason": verdict.category.replace("_", " ")}

    def judge(self, expected: ExpectedMessage | ExpectedCall | ExpectedCalls, calls: list[Item], text: str) -> Verdict:
        if not calls and not text.strip():
            return Verdict(0.0, "no_action_found")
        if isinstance(expected, ExpectedMessage):
            return Verdict(0.0, "no_expected_chat_message") if calls else Verdict(1.0, "expected_chat_message_found")
        if not calls:
            return Verdict(0.0, "no_expected_tool_call")
        if isinstance(expected, ExpectedCalls):
            return self.judge_batch(expected.calls, calls)
        if self.strict and len(calls) > 1:
            return Verdict(0.0, "multiple_tool_calls_found")
        return self.compare(expected, calls[0])

    def judge_batch(self, expected: list[ExpectedCall], calls: list[Item]) -> Verdict:
        """In any order; fewer or more than expected only where the configuration lets them."""
        wanted, given = len(expected), len(calls)
        other_length = "function_call_batch_length_different"
        let_in = given == wanted or (self.rules.allow_subset if given < wanted else self.rules.allow_superset)
        if not let_in or given > MAX_CALLS:
            return Verdict(0.0, other_length)
        matched = greatest_matching(wanted, given, lambda one, other: self.compare(expected[one], calls[other])[0] == 1)
        required = min(wanted, given)
        score = {
            "binary_strict": float(matched == required),
            "fractional": matched / required,
            "f1": 2 * matched / (wanted + given),
        }[self.rules.parallel_tool_call_reward_mode]
        if score == 1.0:
            return Verdict(1.0, "expected_tool_call_batch")
        return Verdict(score, other_length if wanted != given else "function_call_batch_different")

    def compare(self, expected: ExpectedCall, call: Item) -> Verdict:
        wanted = read_arguments(expected.arguments)
        return self.comparator.compare_call(expected.name, wanted, call.get("name"), call.get("arguments"))


app = SingleStepToolUse.app()
