"""Questions answered by SQL, in three dialects: a judge says whether the query does what the expected one does."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from sql_prompts import PLACES, QUESTION, SYSTEM
from sql_text import extract_sql

from gym.server import Problem, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.server.judge import Judge, JudgeConfig, Prompt, not_for_a_judge
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority

OTHER_NAMES = {"postgres": "postgresql", "pg": "postgresql", "sqlite3": "sqlite"}
SWAPPED = ("first_answer", "second_answer")


def _dialect(value: Any) -> Any:
    name = value.strip().lower() if isinstance(value, str) else value
    return OTHER_NAMES.get(name, name) if isinstance(name, str) else name


class TextToSqlConfig(JudgeConfig):
    judge_system_message: str | None = SYSTEM
    judge_equal_label: str = Field("[[A=B]]", min_length=1)
    judge_not_equal_label: str = Field("[[A!=B]]", min_length=1)
    check_twice_swap: bool = True
    reward_if_swap_fails: float = 0.0
    strict: bool = False


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


class TextToSql(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: TextToSqlConfig

    def __init__(self, config: TextToSqlConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.config = config
        self.judge = Judge(self, config)
        self.prompt = Prompt.parse(QUESTION, PLACES)

    async def check_row(self, row: TextToSqlTask) -> list[Problem]:
        """A row brings its tables along, in `sql_context`; what it may lack is the expected query."""
        there = any(text and text.strip() for text in (row.sql, row.expected_answer))
        return [] if there else [Problem("is missing", key="sql", hint="a text is needed, here or in expected_answer")]

    async def verify(self, rollout: TextToSqlTask) -> dict[str, Any]:
        """1.0 when the judge finds the queries equal, in both orders unless told otherwise."""
        truth, text = rollout.truth, rollout.output_text
        query = extract_sql(text)
        fields: dict[str, Any] = {
            "sql": truth,
            "sql_dialect": rollout.sql_dialect,
            "model_output": text,
            "extracted_sql": query,
        }
        if query is None:
            return _failed(fields, "no_sql_extracted", "no query stands in the answer")
        if reason := not_for_a_judge(query):
            return _failed(fields, "no_sql_extracted", reason)
        told = await self.judge.compare(
            self.prompt,
            {
                "sql_prompt": rollout.sql_prompt,
                "sql_context": rollout.sql_context,
                "sql_dialect": rollout.sql_dialect,
                "first_answer": truth,
                "second_answer": query,
            },
            equal=self.config.judge_equal_label,
            not_equal=self.config.judge_not_equal_label,
            swap=SWAPPED if self.config.check_twice_swap else None,
            untrusted=("second_answer",),
            system=self.config.judge_system_message or None,
        )
        fields["judge_evaluations"] = told.evaluations
        if told.equal and told.swapped is not False:
            return {**fields, "reward": 1.0, "judge_passed": True, "failure_reason": "none"}
        if told.equal:
            failed = _failed(fields, "judge_evaluation_failed", "the judge said otherwise in the other order")
            return {**failed, "reward": self.config.reward_if_swap_fails}
        return _failed(fields, "judge_evaluation_failed", "the judge says that the queries differ")

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return pass_and_majority(replies)


def _failed(fields: dict[str, Any], code: str, reason: str) -> dict[str, Any]:
    told = {"reward": 0.0, "judge_passed": False, "failure_reason": code, "reason": reason}
    return {"judge_evaluations": [], **fields, **told}


app = TextToSql.app()
