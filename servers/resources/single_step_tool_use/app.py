"""The next step of a conversation, compared with an expert's: a tool call, several at once, or a message."""

from collections.abc import Sequence
from typing import Any

from comparison import Call, Comparator, Verdict, read_call
from rows import ExpectedCall, ExpectedCalls, ExpectedMessage, SingleStepTask, SingleStepToolUseScore
from rules import Category, ComparatorConfig
from texts import is_about, is_copy

from gym.server import ResourcesConfig, ResourcesServer
from gym.server.config import Settings
from gym.server.worker_pool import worker_pool
from gym.server.workers import Workers
from gym.wire import items
from gym.wire.calls import greatest_pairing, refuse_unoffered
from gym.wire.failures import RolloutError

MAX_CALLS = 200  # in one step


class SingleStepConfig(ResourcesConfig):
    tool_call_comparator_config: ComparatorConfig = ComparatorConfig()
    strict: bool = False


class SingleStepToolUse(ResourcesServer[None]):
    reverify_mode = "stateless"
    constant_floor = 0.2
    constant_floor_reason = "one example of five asks for a message, and any message is one"
    config: SingleStepConfig
    workers: Workers = worker_pool("schemas", count=1)

    def __init__(self, config: SingleStepConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        strict, rules = self.config.strict, self.config.tool_call_comparator_config
        self.rules = rules
        self.counts_calls = strict or rules.counts_calls
        self.one = Comparator(rules, strict=strict)
        self.several = Comparator(rules.for_several(), strict=strict)

    async def verify(self, rollout: SingleStepTask) -> SingleStepToolUseScore:
        """1.0 when the step may pass for the expected one."""
        verdict = await self.judge(rollout)
        reason = "" if verdict.score == 1.0 else str(verdict.category).replace("_", " ")
        return SingleStepToolUseScore(reward=verdict.score, category=verdict.category, reason=reason)

    async def judge(self, rollout: SingleStepTask) -> Verdict:
        expected, calls = rollout.expected_action, rollout.function_calls
        wanted = [] if isinstance(expected, ExpectedMessage) else _calls_of(expected)
        await self.refuse_unusable(wanted, rollout.responses_create_params.tools)
        if not calls and not rollout.output_text.strip():
            return Verdict(0.0, Category.NO_ACTION)
        if isinstance(expected, ExpectedMessage):
            return Verdict(0.0, Category.NO_MESSAGE) if calls else self.judge_message(expected.content, rollout)
        if not calls:
            return Verdict(0.0, Category.NO_CALL)
        given = [read_call(one.get("name"), one.get("arguments")) for one in calls[: MAX_CALLS + 1]]
        if len(wanted) > 1 or len(given) > 1:
            return self.judge_several(wanted, given)
        return await self.judge_one(wanted[0], given[0], rollout.responses_create_params.tools)

    async def refuse_unusable(self, wanted: Sequence[Call], tools: list[dict[str, Any]]) -> None:
        """An expected call that the row's own tools do not allow has no right answer."""
        refuse_unoffered((one.name for one in wanted), tools, field="expected_action")
        if not tools or not self.rules.validate_against_declared_tool_schema or len(wanted) != 1:
            return
        if unfit := await self.find_unfit(wanted[0], tools):
            said = str(unfit).replace("_", " ")
            raise RolloutError("row", f"expected_action: {wanted[0].name} by the row's own tools: {said}")

    def judge_message(self, wanted: str, rollout: SingleStepTask) -> Verdict:
        """What it says does not matter; in strict mode it is about the same, and no copy of what was said before."""
        if self.config.strict:
            said = items.input_items(rollout.responses_create_params.input)
            before = "\n".join(items.item_text(one, "\n") for one in said)
            if is_copy(rollout.output_text, before) or not is_about(rollout.output_text, wanted):
                return Verdict(0.0, Category.OTHER_MESSAGE)
        return Verdict(1.0, Category.MESSAGE)

    async def judge_one(self, wanted: Call, given: Call, tools: list[dict[str, Any]]) -> Verdict:
        if self.rules.validate_against_declared_tool_schema and (unfit := await self.find_unfit(given, tools)):
            return Verdict(0.0, unfit)
        return self.one.compare_call(wanted, given)

    async def find_unfit(self, call: Call, tools: list[dict[str, Any]]) -> Category | None:
        """Why a call is none that the row's tools allow."""
        schema = _schema_of(call.name, tools)
        if schema is None:
            return Category.NOT_DECLARED
        if call.arguments is None:
            return Category.NO_JSON
        field = f"the schema of {call.name}"
        conforms = await self.workers.judge("conforms", call.arguments, schema, blank={}, field=field)
        return None if conforms else Category.NOT_CONFORMING

    def judge_several(self, wanted: Sequence[Call], given: Sequence[Call]) -> Verdict:
        """In any order. Whether it matters how many there are, is the configuration's to say."""
        if len(given) > MAX_CALLS or not self._admits(len(wanted), len(given)):
            return Verdict(0.0, Category.OTHER_COUNT)
        verdicts = [[self.several.compare_call(one, other) for other in given] for one in wanted]
        pairs = greatest_pairing(len(wanted), len(given), lambda one, other: verdicts[one][other].score == 1.0)
        score = self._score(len(pairs), len(wanted), len(given))
        if score == 1.0:
            return Verdict(1.0, Category.CALL if len(wanted) == 1 else Category.CALLS)
        left = next((verdicts[one] for one in range(len(wanted)) if one not in pairs), None)
        if left is None or len(pairs) == len(given):
            return Verdict(score, Category.OTHER_COUNT)
        return Verdict(score, _nearest_miss(left))

    def _admits(self, wanted: int, given: int) -> bool:
        if wanted == given or not self.counts_calls:
            return True
        return self.rules.allow_subset if given < wanted else self.rules.allow_superset

    def _score(self, matched: int, wanted: int, given: int) -> float:
        if not self.counts_calls:
            return float(matched == wanted)
        mode, required = self.rules.parallel_tool_call_reward_mode, min(wanted, given)
        if mode == "f1":
            return 2 * matched / (wanted + given)
        return matched / required if mode == "fractional" else float(matched == required)


def _calls_of(expected: ExpectedCall | ExpectedCalls) -> list[Call]:
    calls = expected.calls if isinstance(expected, ExpectedCalls) else [expected]
    return [read_call(one.name, one.arguments) for one in calls]


def _nearest_miss(verdicts: Sequence[Verdict]) -> Category | None:
    """The first that got past the tool's name."""
    misses = (one.category for one in verdicts if one.score < 1.0 and one.category != Category.OTHER_TOOL)
    return next(misses, Category.OTHER_TOOL)


def _schema_of(name: Any, tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Of the tool that a row declares under this name, as the Responses or as the Chat Completions API would."""
    found = None
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, dict) and function.get("name") == name and isinstance(function.get("parameters"), dict):
            found = function["parameters"]
    return found


app = SingleStepToolUse.app()
