"""Makes rows of textarena's games: python generate.py --count 100 --task TowerOfHanoi-v0 --task ConnectFour-v0.

Without a task, of all games for one player that need no word list. A game for two needs an `opponent` in the server.
"""

from random import Random
from typing import Any

from games import ALONE, COSTLY, known_games, players_of

from gym.server.generating import Made, main

ASK = """You play {task}. Each message shows the rules, or what has happened since your last move. Think, then write \
one move between <action> and </action>, in the form that the rules ask for."""


class TextArenaRows:
    licence = "MIT, as the package whose games they are"
    difficulties = ("any",)
    tasks = known_games()

    def __init__(self) -> None:
        self.alone = [name for name in self.tasks if name.split("-v0")[0] in ALONE and name not in COSTLY]

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        task, seed = task or random.choice(self.alone), random.getrandbits(31)
        asked: list[dict[str, Any]] = [{"role": "system", "content": ASK.format(task=task)}]
        row: dict[str, Any] = {"responses_create_params": {"input": asked}, "environment": task}
        row |= {"players": players_of(task), "seed": seed}
        agent = {"type": "responses_api_agents", "name": "textarena_gymnasium_agent"}
        return Made({**row, "agent_ref": agent}, key=f"{task}:{seed}")


if __name__ == "__main__":
    raise SystemExit(main(TextArenaRows()))
