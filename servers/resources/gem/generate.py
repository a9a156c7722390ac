"""Makes rows of gem's environments: python generate.py --count 100 --task game:Sudoku-v0-easy --task rg:gcd."""

from random import Random
from typing import Any

from gem.envs.registration import ENV_REGISTRY

from gym.server.generating import Made, main

ASK = """You play {task}. Each message shows the task, or what your last move led to. Think, then write one move or \
answer inside \\boxed{{}}."""
# Words that nltk would fetch from the network, code that does not load, a game that raises.
LEFT_OUT = ("game:Hangman", "game:WordSearch", "game:Wordle", "game:Crosswords", "game:FifteenPuzzle-v0-random")
LEFT_OUT += ("rg:composite",)


class GemRows:
    licence = "Apache-2.0, as the package whose environments they are"
    difficulties = ("any",)
    tasks = tuple(
        sorted(name for name in ENV_REGISTRY if name.startswith(("game:", "rg:")) and not name.startswith(LEFT_OUT))
    )

    def __init__(self) -> None:
        self.games = [name for name in self.tasks if name.startswith("game:")]

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        task, seed = task or random.choice(self.games), random.getrandbits(31)
        asked: list[dict[str, Any]] = [{"role": "system", "content": ASK.format(task=task)}]
        agent = {"type": "responses_api_agents", "name": "gem_gymnasium_agent"}
        row: dict[str, Any] = {"responses_create_params": {"input": asked}, "environment": task, "seed": seed}
        if task.startswith("rg:"):  # else its questions are of one set of 500
            row["settings"] = {"seed": seed, "size": 2}
        row["agent_ref"] = agent
        return Made(row, key=f"{task}:{seed}")


if __name__ == "__main__":
    raise SystemExit(main(GemRows()))
