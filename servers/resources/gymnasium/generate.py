"""Makes rows of gymnasium's environments: python generate.py --count 100 --task FrozenLake-v1 --task Taxi-v4."""

from random import Random
from typing import Any

import gymnasium

from gym.server.generating import Made, main

ASK = """You play {task}, step by step. Each message shows where things stand. Think, then write one action between \
<action> and </action>. {words}"""
WORDS = {
    "FrozenLake": "Go from S to G over the ice F, not into a hole H. 0 is left, 1 down, 2 right, 3 up. "
    "The ice is slippery: you may slide to a side.",
    "CliffWalking": "Go from x to T, not over the cliff C. 0 is up, 1 right, 2 down, 3 left. Each step costs 1.",
    "Taxi": "Fetch the passenger (blue letter) and bring them to the purple one. 0 is down, 1 up, 2 right, 3 left, "
    "4 takes them in, 5 lets them out.",
    "Blackjack": "The observation is your sum, the dealer's card and whether you have a usable ace. 1 takes a card, 0 "
    "sticks.",
}
TOY_TEXT = tuple(sorted(name for name, one in gymnasium.registry.items() if "toy_text" in str(one.entry_point)))


class GymnasiumRows:
    licence = "MIT, as the package whose environments they are"
    difficulties = ("any",)
    tasks = TOY_TEXT

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        task, seed = task or random.choice(self.tasks), random.getrandbits(31)
        words = next((text for name, text in WORDS.items() if task.startswith(name)), "")
        asked: list[dict[str, Any]] = [{"role": "system", "content": ASK.format(task=task, words=words)}]
        agent = {"type": "responses_api_agents", "name": "gymnasium_gymnasium_agent"}
        row = {"responses_create_params": {"input": asked}, "environment": task, "seed": seed, "agent_ref": agent}
        return Made(row, key=f"{task}:{seed}")


if __name__ == "__main__":
    raise SystemExit(main(GymnasiumRows()))
