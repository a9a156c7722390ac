"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from gym.server import Score, VerifyRequest
from gym.wire.failures import RolloutError

OTHER_NAMES = {"postgres": "postgresql", "pg": "postgresql", "sqlite3": "sqlite"}


def _dialect(value: Any) -> Any:
    name = value.strip().lower() if isinstance(value, str) else value
    return OTHER_NAMES.get(name, name) if isinstance(name, str) else name


class TextToSqlTask(VerifyRequest):
    sql_dialect: Annotated[Literal["mysql", "postgresql", "sqlite"], BeforeValidator(_dialect)]
    sql_prompt: str
    sql_context: str = ""
    sql: str | None = None
    expected_answer: str | None = None  # what some sets call it

    @property
    def truth(self) -> str:
        for text in (self.sql, self.expected_answer):
            if text and text.strip():
                return text
        raise RolloutError("row", "sql: a text is needed, here or in expected_answer")


class TextToSqlScore(Score):
    sql: str
    sql_dialect: str
    model_output: str
    extracted_sql: str | None
    judge_evaluations: list[dict[str, Any]]
    judge_passed: bool
    failure_reason: str
