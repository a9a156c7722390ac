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


def reason_of(result: dict[str, Any], missing: list[str]) -> str:
    if result["error_type"]:
        return f"{result['error_type']}: {result['error_message']}"
    return f"missing: {', '.join(missing)}"[:2000] if missing else "the row expects no paths"
