"""Instructions that a rule can check: a number of words, a format, a letter. No judge."""

from typing import Any, Literal

from pydantic import Field
from rows import GradingMode, Instructions, InstructionScore, InstructionTask

from gym.server import ResourcesServer
from gym.server.worker_pool import WorkersConfig, worker_pool
from gym.server.workers import Workers
from gym.wire.answers import repeats_only, says_something
from gym.wire.failures import RolloutError
from gym.wire.items import last_user_text
from gym.wire.pass_rates import pass_and_majority

# To follow these is to copy, and may be to copy the whole prompt.
COPIES = frozenset(
    ("copy:copy", "copy:copying_simple", "copy:copying_multiple", "new:copy_span_idx", "repeat:repeat_span")
)


class InstructionConfig(WorkersConfig):
    strict: bool = False  # an empty answer, and a row without instructions, are worth 0; none is dropped
    suite: Literal["ifeval", "ifbench"] = "ifeval"
    grading_mode: GradingMode | None = None  # overrides the rows' own
    cpu_seconds: float = Field(20.0, gt=0)


class InstructionFollowing(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: InstructionConfig
    workers: Workers = worker_pool("following")

    async def verify(self, rollout: InstructionTask) -> InstructionScore:
        """1.0 when all instructions are followed (`binary`), or the share of those that are (`fraction`)."""
        asked = rollout.instructions()
        if asked.instruction_id_list is None:
            raise RolloutError("row", "verifier_metadata.instruction_id_list: a list of texts is expected")
        if asked.instruction_id_list and asked.kwargs is None:
            raise RolloutError("row", "verifier_metadata.kwargs: a list of objects is expected, one an instruction")
        ids, kwargs = asked.instruction_id_list, list(asked.kwargs or ())
        if self.config.strict:
            kwargs += [None] * (len(ids) - len(kwargs))
        text = last_text(rollout.response.output)
        if self.config.strict and text is not None and answers_nothing(text, rollout, asked):
            text = ""  # dots, blanks and the prompt itself break few rules
        result = await self.follow(text, ids, kwargs) if text is not None else refusal(ids)
        default: GradingMode = "fraction" if self.config.suite == "ifbench" else "binary"
        mode = self.config.grading_mode or asked.grading_mode or default
        score = self.grade(result, mode)
        if "grading_mode" not in rollout.model_fields_set:
            score.grading_mode = mode
        if rollout.verifier_metadata is None:  # else the echo has it
            score.verifier_metadata = asked.model_dump(exclude_none=True)
        return score

    async def follow(self, text: str, ids: list[str], kwargs: list[dict[str, Any] | None]) -> dict[str, Any]:
        loose = self.config.suite == "ifbench"
        empty_follows = not (loose or self.config.strict)
        asked = (ids, kwargs, empty_follows, loose, self.config.strict)
        return await self.workers.judge("worker_follow", text, *asked, field="verifier_metadata.kwargs")

    def grade(self, result: dict[str, Any], mode: GradingMode) -> InstructionScore:
        followed, reward = result["followed"], self.reward(result["followed"], mode)
        score = InstructionScore(reward=reward, follow_all_instructions=all(followed), follow_instruction_list=followed)
        if self.config.suite == "ifbench":
            loosely = result.get("followed_loosely", followed)
            score.follow_all_instructions_loose, score.follow_instruction_list_loose = all(loosely), loosely
            score.reward_loose = self.reward(loosely, mode)
        if reward < 1.0:
            score.reason = result["reason"] or "the row has no instructions"
        return score

    def reward(self, followed: list[bool], mode: GradingMode) -> float:
        if not followed:  # nothing was asked
            return float(not self.config.strict and self.config.suite == "ifeval")
        return float(all(followed)) if mode == "binary" else sum(followed) / len(followed)

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        rates: dict[str, Any] = dict(pass_and_majority(replies))
        every = [one for reply in replies for one in reply.get("follow_instruction_list") or ()]
        if every:
            rates["mean/instruction_accuracy"] = sum(map(bool, every)) / len(every)
        return rates


def answers_nothing(text: str, rollout: InstructionTask, asked: Instructions) -> bool:
    """Not a word, or the prompt again where no instruction asks for a copy."""
    if not says_something(text):
        return True
    prompts = (asked.prompt or "", last_user_text(rollout.responses_create_params.input))
    copies = not COPIES.isdisjoint(asked.instruction_id_list or ())
    return not copies and any(repeats_only(text, prompt) for prompt in prompts)


def last_text(output: list[dict[str, Any]]) -> str | None:
    """The first part of the last item: empty when it has none, None when it is a refusal."""
    content = output[-1].get("content") if output else None
    if isinstance(content, str):
        return content
    part = content[0] if isinstance(content, list) and content else {}
    if not isinstance(part, dict) or part.get("type") == "refusal":
        return None
    text = part.get("text", "")
    return text if isinstance(text, str) else None


def refusal(ids: list[str]) -> dict[str, Any]:
    return {"followed": [False] * max(len(ids), 1), "reason": "the answer is a refusal, or holds no text"}


app = InstructionFollowing.app()
