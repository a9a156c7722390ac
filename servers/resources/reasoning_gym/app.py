"""The tasks of the reasoning-gym package: procedural puzzles, each scored by the package's own rule."""

from doubtful import LONGEST
from pydantic import Field
from rows import ReasoningGymScore, ReasoningTask

from gym.server import ResourcesConfig, ResourcesServer
from gym.server.slots import kept, last_box, last_pair
from gym.server.workers import AnswerTooCostly, WorkerRaised, Workers
from gym.wire.answers import cut_out
from gym.wire.failures import RolloutError

BOX = "\\boxed{"
FLOOR = 0.05  # the most that a task gives to an answer for being there


class ReasoningGymConfig(ResourcesConfig):
    strict: bool = False
    verifier_timeout_seconds: float = Field(default=20.0, gt=0)  # of CPU time
    verifier_workers: int = Field(default=2, ge=1)


class ReasoningGym(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: ReasoningGymConfig

    async def start(self) -> None:
        self.workers = self.own(
            Workers(
                "scoring",
                count=self.config.verifier_workers,
                timeout=self.config.verifier_timeout_seconds,
                memory=4 << 30,
            )
        )

    async def verify(self, rollout: ReasoningTask) -> ReasoningGymScore:
        """The package's score of the answer, between 0 and 1; many tasks know partial ones."""
        task = rollout.metadata.source_dataset
        if rollout.answer and len(rollout.answer) > LONGEST:
            what = f"answer: {len(rollout.answer)} characters, and none of more than {LONGEST} is looked at"
            raise RolloutError("row", what)
        answer = extract(rollout.output_text, strict=self.config.strict)
        reward, reason = (0.0, "the answer is empty") if not answer else await self.score(task, answer, rollout)
        if self.config.strict and reward <= FLOOR:
            reward = 0.0
        reason = "" if reward >= 1.0 else reason or f"{task} gives it {reward:g}"
        return ReasoningGymScore(reward=reward, task_name=task, score=reward, extracted_answer=answer, reason=reason)

    async def score(self, task: str, answer: str, rollout: ReasoningTask) -> tuple[float, str]:
        if len(answer) > LONGEST:
            return 0.0, f"an answer of {len(answer)} characters answers nothing"
        entry = {"question": rollout.question, "answer": rollout.answer, "metadata": rollout.metadata.model_dump()}
        try:
            asked = (entry, self.config.strict)
            score = await self.workers.check("score", task, answer, *asked, blank=(task, "", *asked), field="metadata")
            return float(score), ""
        except AnswerTooCostly as error:
            return 0.0, str(error)
        except WorkerRaised as error:
            if error.type_name == "UnknownTask":
                raise RolloutError("row", f"metadata.source_dataset: reasoning-gym has no task {task!r}") from None
            return 0.0, f"{task} cannot read it: {error.type_name}: {error.message[:200]}"


def extract(text: str, *, strict: bool) -> str:
    """The last `<answer>`, else what is boxed, else all of it; strict wants it marked, and not taken back."""
    if strict:
        return kept(text, last_pair(text, "answer") or last_box(text)) or ""
    marked, _ = cut_out(text, "<answer>", "</answer>")
    if marked:
        return marked[-1].strip()
    return (first_boxed(text) or text).strip()


def first_boxed(text: str) -> str | None:
    """Up to the first brace that closes, of the first box that is not empty."""
    end = 0
    while (begin := text.find(BOX, end)) >= 0 and (end := text.find("}", begin)) >= 0:
        if content := text[begin + len(BOX) : end]:
            return content
    return None


app = ReasoningGym.app()
