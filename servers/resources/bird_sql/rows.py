"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated

from pydantic import StringConstraints

from gym.server import Score, VerifyRequest


class BirdSqlTask(VerifyRequest):
    question: str
    gt_sql: Annotated[str, StringConstraints(pattern=r"\S")]
    db_id: str
    difficulty: str | None = None


class BirdSqlScore(Score):
    model_output: str
    extracted_sql: str | None
    had_codeblock: bool
    execution_match: bool
    failure_reason: str
