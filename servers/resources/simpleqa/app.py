"""Short facts: a judge says whether an answer is correct, incorrect, or was not attempted."""

from pathlib import Path
from typing import Any

import yaml
from grades import GRADES, read_grade
from rows import SimpleqaScore, SimpleqaTask

from gym.errors import UserError
from gym.server import ResourcesServer
from gym.server.judge import Judge, JudgeConfig, Prompt, find_file, not_for_a_judge
from gym.wire import items
from gym.wire.pass_rates import pass_and_majority

VERDICTS = ("correct", "incorrect", "not_attempted")


class SimpleqaConfig(JudgeConfig):
    judge_prompt_path: str = "prompts/judge.yaml"  # a text under `user:`
    use_chat_completions_for_judge: bool = False  # without effect: every model of a stack answers /v1/responses
    strict: bool = False


class Simpleqa(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: SimpleqaConfig

    async def start(self) -> None:
        self.judge = Judge(self, self.config, load_prompt(self.config.judge_prompt_path, self.here), ("generation",))

    async def verify(self, rollout: SimpleqaTask) -> SimpleqaScore:
        """1.0 for what the judge grades A."""
        said = [one for one in rollout.response.output if items.is_message(one)]
        answer = items.item_text(said[-1], "\n").strip() if said else ""
        if reason := not_for_a_judge(answer):
            return score("not_attempted", answer, None, [], reason)
        question = rollout.question or items.last_user_text(rollout.responses_create_params.input)
        values = {"question": question, "expected_answer": rollout.expected_answer, "generation": answer}
        said, grade = await self.judge.verdict(read_grade, **values)
        verdict = GRADES[grade]
        return score(verdict, answer, said.text, [said.evaluation(grade)], f"the judge says: {verdict}")

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Each verdict as a score of its own; F1 of correctness over the questions and over the attempts."""
        rates: dict[str, Any] = {}
        for verdict in VERDICTS:
            scored = [{**reply, "reward": float(reply.get("verdict") == verdict)} for reply in replies]
            rates |= pass_and_majority(scored, answer="extracted_answer", name=verdict)
        return rates | {name: rate for at in list(rates) for name, rate in _attempted(at, rates)}


def load_prompt(path: str, folder: Path) -> Prompt:
    file = find_file(path, folder, "judge_prompt")
    document = yaml.safe_load(file.read_text("utf-8"))
    text = document.get("user") if isinstance(document, dict) else None
    if not isinstance(text, str):
        raise UserError(f"judge_prompt_path: {path} has no text under `user`.", "Put the template there.")
    return Prompt.parse(text, ("expected_answer", "generation"), ("question",), where=f"judge_prompt_path ({path})")


def _attempted(name: str, rates: dict[str, Any]) -> list[tuple[str, float]]:
    at, _, score = name.rpartition("/")
    if score != "correct":
        return []
    right, wrong = rates[name], rates[f"{at}/incorrect"]
    given = 100.0 * right / (right + wrong) if right + wrong else 0.0
    f1 = 2 * given * right / (given + right) if given + right else 0.0
    return [(f"{at}/f1", f1), (f"{at}/accuracy_given_attempted", given)]


def score(
    verdict: str, answer: str, judge_output: str | None, evaluations: list[dict[str, Any]], reason: str
) -> SimpleqaScore:
    return SimpleqaScore(
        reward=float(verdict == "correct"),
        extracted_answer=answer,
        verdict=verdict,
        judge_output=judge_output,
        judge_evaluations=evaluations,
        reason="" if verdict == "correct" else reason,
        **{f"is_{one}": float(one == verdict) for one in VERDICTS},
    )


app = Simpleqa.app()
