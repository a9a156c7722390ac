"""Makes rows of the lock that is shipped along: python generate.py --count 100 --difficulty hard."""

from hashlib import blake2b
from random import Random

from lock.rules import secret_of

from gym.server.generating import Made, main

ASK = """You open lock {name}, of three digits, each from 1 to 6. After each try you are told how many digits are \
right and in their place, and how many others are right but belong elsewhere. Think, then write one try between \
<action> and </action>: <action>{{"digits": [first, second, third]}}</action>"""
TRIES = {"easy": 12, "medium": 8, "hard": 5}


class LockRows:
    licence = "Apache 2.0"
    difficulties = tuple(TRIES)

    def make(self, random: Random, difficulty: str) -> Made:
        seed = random.getrandbits(31)
        reset = {"seed": seed, "tries": TRIES[difficulty]}
        agent = {"type": "responses_api_agents", "name": "openenv_gymnasium_agent"}
        name = blake2b(str(seed).encode(), digest_size=3).hexdigest()
        asked = {"input": [{"role": "system", "content": ASK.format(name=name)}]}
        row = {"responses_create_params": asked, "reset": reset, "agent_ref": agent}
        digits = "".join(map(str, secret_of(seed)))
        answer = f'<action>{{"digits": [{", ".join(digits)}]}}</action>'
        return Made(row, answer=answer, key=str(seed))


if __name__ == "__main__":
    raise SystemExit(main(LockRows()))
