"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Json, StrictInt, StrictStr

from gym.server import Score, VerifyRequest


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a JSON list of node names, as text, is needed")  # noqa: TRY004 (pydantic's protocol)
    return value


class GraphwalksTask(VerifyRequest):
    expected_answer: Annotated[Json[list[StrictStr | StrictInt]], BeforeValidator(_text)]
    problem_type: str
    n_tokens: int | None = None
    prompt_chars: int | None = None


class GraphwalksScore(Score):
    f1: float
    parse_failed: bool
    predicted_nodes: list[Any]
