"""What a row holds, and what its reply says beside the reward."""

from typing import Any, Literal

from gym.server import Score, VerifyRequest
from gym.wire.rows import Tolerant

GradingMode = Literal["binary", "fraction"]


class Instructions(Tolerant):  # type: ignore[no-redef]  # the plug-in gives __init__ a **kwargs of its own
    instruction_id_list: list[str] | None = None
    kwargs: list[dict[str, Any] | None] | None = None
    prompt: str | None = None
    grading_mode: GradingMode | None = None


class InstructionTask(VerifyRequest):  # type: ignore[no-redef]  # the same
    id: int | str | None = None
    verifier_metadata: Instructions | None = None
    instruction_id_list: list[str] | None = None
    kwargs: list[dict[str, Any] | None] | None = None
    prompt: str | None = None
    grading_mode: GradingMode | None = None

    def instructions(self) -> Instructions:
        """Of both places a data set may keep them in, `verifier_metadata` wins."""
        inner = self.verifier_metadata or Instructions()
        own = {name: getattr(self, name) for name in Instructions.model_fields}
        found = {name: getattr(inner, name) for name in Instructions.model_fields}
        return Instructions.model_validate({name: own[name] if found[name] is None else found[name] for name in own})


class InstructionScore(Score):
    follow_all_instructions: bool
    follow_instruction_list: list[bool]
    follow_all_instructions_loose: bool = False
    follow_instruction_list_loose: list[bool] = []
    reward_loose: float = 0.0
    grading_mode: GradingMode = "binary"
    verifier_metadata: dict[str, Any] = {}
