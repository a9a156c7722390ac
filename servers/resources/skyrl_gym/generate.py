"""Makes rows of skyrl-gym's environments: python generate.py --count 100 --task gsm8k_multi_turn."""

from random import Random
from typing import Any

from gym.server.generating import Made, main

SHAPES = (
    (
        "A shop sells {a} boxes of {b} pens and gives {c} pens away. How many pens leave the shop?",
        lambda a, b, c: a * b + c,
    ),
    ("{a} buses take {b} people each, and {c} people get off. How many stay?", lambda a, b, c: a * b - c),
    ("Ann has {a} marbles. She gets {b} a day for {c} days. How many has she then?", lambda a, b, c: a + b * c),
)
SIZES = {"easy": 9, "medium": 60, "hard": 900}
HASHES = "Think, and end with four # signs, a blank and the number."
ANSWER = "Think, and end with a line `Answer: N`, N being the number."


class SkyRLRows:
    licence = "Apache-2.0"
    difficulties = tuple(SIZES)
    tasks = ("aime", "gsm8k", "gsm8k_multi_turn")

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        task, (text, solve) = task or random.choice(self.tasks), random.choice(SHAPES)
        a, b, c = (random.randint(2, SIZES[difficulty]) for _ in range(3))
        question, answer = text.format(a=a, b=b, c=c), str(solve(a, b, c))
        ask = ANSWER if task == "aime" else HASHES
        truth: dict[str, Any] = {"method": "rule", "ground_truth": answer}
        row = {
            "responses_create_params": {"input": [{"role": "user", "content": f"{question} {ask}"}]},
            "env_class": task,
            "data_source": task,
            **({"reward_model": truth} if task == "aime" else {"reward_spec": truth}),
            **({"extra_info": {"max_turns": 3}} if task == "gsm8k_multi_turn" else {}),
            "agent_ref": {"type": "responses_api_agents", "name": "skyrl_gym_gymnasium_agent"},
        }
        return Made(row, answer=f"Answer: {answer}" if task == "aime" else f"#### {answer}", key=f"{task}:{question}")


if __name__ == "__main__":
    raise SystemExit(main(SkyRLRows()))
