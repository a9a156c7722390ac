"""Questions answered by SQL, in three dialects: a judge says whether the query does what the expected one does."""

from functools import partial

from pydantic import Field
from rows import TextToSqlScore, TextToSqlTask
from sql_prompts import PLACES, QUESTION, SYSTEM
from sql_text import extract_sql

from gym.server import Problem, ResourcesServer
from gym.server.judge import Comparison, Judge, JudgeConfig, judged, not_for_a_judge

OTHERWISE, DIFFERS = "said otherwise in the other order", "says that the queries differ"
SWAPPED = ("first_answer", "second_answer")


class TextToSqlConfig(JudgeConfig):
    judge_system_message: str | None = SYSTEM
    judge_equal_label: str = Field("[[A=B]]", min_length=1)
    judge_not_equal_label: str = Field("[[A!=B]]", min_length=1)
    check_twice_swap: bool = True
    reward_if_swap_fails: float = 0.0
    strict: bool = False


class TextToSql(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: TextToSqlConfig
    judge: Judge = judged(text=QUESTION, required=PLACES)

    async def check_row(self, row: TextToSqlTask) -> list[Problem]:
        """A row brings its tables along, in `sql_context`; what it may lack is the expected query."""
        there = any(text and text.strip() for text in (row.sql, row.expected_answer))
        return [] if there else [Problem("is missing", key="sql", hint="a text is needed, here or in expected_answer")]

    async def verify(self, rollout: TextToSqlTask) -> TextToSqlScore:
        """1.0 when the judge finds the queries equal, in both orders unless the config says otherwise."""
        truth, text = rollout.truth, rollout.output_text
        query = extract_sql(text)
        score = partial(TextToSqlScore, sql=truth, sql_dialect=rollout.sql_dialect, model_output=text)
        if reason := "no query stands in the answer" if query is None else not_for_a_judge(query):
            nothing = {"judge_evaluations": [], "judge_passed": False, "failure_reason": "no_sql_extracted"}
            return score(reward=0.0, extracted_sql=query, reason=reason, **nothing)
        verdict = await self.compare(rollout, truth, query)
        right = verdict.equal and verdict.swapped is not False
        reason = "" if right else f"the judge {OTHERWISE if verdict.equal else DIFFERS}"
        return score(
            reward=1.0 if right else self.config.reward_if_swap_fails if verdict.equal else 0.0,
            extracted_sql=query,
            judge_evaluations=verdict.evaluations,
            judge_passed=right,
            failure_reason="none" if right else "judge_evaluation_failed",
            reason=reason,
        )

    async def compare(self, rollout: TextToSqlTask, truth: str, query: str) -> Comparison:
        values = {
            "sql_prompt": rollout.sql_prompt,
            "sql_context": rollout.sql_context,
            "sql_dialect": rollout.sql_dialect,
            "first_answer": truth,
            "second_answer": query,
        }
        return await self.judge.compare(
            self.judge.prompt,
            values,
            equal=self.config.judge_equal_label,
            not_equal=self.config.judge_not_equal_label,
            swap=SWAPPED if self.config.check_twice_swap else None,
            untrusted=("second_answer",),
            system=self.config.judge_system_message or None,
        )


app = TextToSql.app()
