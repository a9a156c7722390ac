"""What a row holds, and what its reply says beside the reward."""

from typing import Any

from gym.server import VerifyRequest


class StructEvalTask(VerifyRequest):
    task_id: str
    task_name: str
    input_type: str
    output_type: str
    raw_output_metric: list[str]
    rendering: bool = False


def reason_of(told: dict[str, Any], missing: list[str]) -> str:
    if told["error_type"]:
        return f"{told['error_type']}: {told['error_message']}"
    return f"missing: {', '.join(missing)}"[:2000] if missing else "the row expects no paths"
