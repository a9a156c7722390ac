"""Makes rows of the shipped environments: python generate.py --count 100 --task crates --difficulty hard."""

from collections import deque
from random import Random
from typing import Any

from crates import MOVES, Crates, CratesConfig, Place
from levers import Levers, LeversConfig

from gym.server.generating import Made, main

ANSWER = "Think, then write your actions between <answer> and </answer>, with || between them where there are several:"
CRATES = f"""Push every crate onto a mark. # is wall, . floor, o a mark, x a crate, * a crate on a mark, @ you, + you \
on a mark. You push a crate by walking into it; you cannot pull, nor push two at once. {ANSWER} \
Up, Down, Left, Right."""
LEVERS = f"""Find the lever that pays best on average. Each pull pays by chance around the lever's mean. Only your \
choice counts, and it ends the game. {ANSWER} `pull A || pull B`, then `choose A`."""
ROOMS: dict[str, dict[str, int]] = {
    "easy": {"height": 4, "width": 4, "crates": 1, "pillars": 1},
    "medium": {"height": 5, "width": 5, "crates": 2, "pillars": 2},
    "hard": {"height": 6, "width": 6, "crates": 2, "pillars": 5, "pulls": 60},
}
PATHS = {"easy": (3, 12), "medium": (8, 25), "hard": (14, 40)}  # the shortest solution, in moves
BANDITS: dict[str, dict[str, int]] = {
    "easy": {"levers": 3, "pulls": 12, "noise": 5, "gap": 20},
    "medium": {"levers": 5, "pulls": 20, "noise": 15, "gap": 12},
    "hard": {"levers": 8, "pulls": 32, "noise": 20, "gap": 8},
}


class RagenRows:
    licence = "Apache-2.0"
    difficulties = ("easy", "medium", "hard")
    tasks = ("crates", "levers")

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        task = task or random.choice(self.tasks)
        config = (ROOMS if task == "crates" else BANDITS)[difficulty]
        seed, solution = (draw_room if task == "crates" else draw_levers)(random, difficulty)
        asked: list[dict[str, Any]] = [{"role": "system", "content": CRATES if task == "crates" else LEVERS}]
        row: dict[str, Any] = {"responses_create_params": {"input": asked}, "environment": task, "seed": seed}
        row |= {"config": config, "agent_ref": {"type": "responses_api_agents", "name": "ragen_gymnasium_agent"}}
        return Made(row, answer=f"<answer>{solution}</answer>", key=f"{task}:{difficulty}:{seed}")


def draw_levers(random: Random, difficulty: str) -> tuple[int, str]:
    seed, game = random.getrandbits(31), Levers(LeversConfig(**BANDITS[difficulty]))
    game.reset(seed, "train")
    return seed, f"choose {game.best}"


def draw_room(random: Random, difficulty: str) -> tuple[int, str]:
    """A seed whose room is neither too easy nor too long, and its shortest solution."""
    shortest, longest = PATHS[difficulty]
    while True:
        seed, room = random.getrandbits(31), Crates(CratesConfig(**ROOMS[difficulty]))
        room.reset(seed, "train")
        path = solve(room, longest)
        if path and len(path) >= shortest:
            return seed, " || ".join(room.config.action_lookup[action] for action in path)


def solve(room: Crates, longest: int) -> tuple[int, ...]:
    """The shortest way, of all that there are; empty where it is longer."""
    begun: tuple[Place, frozenset[Place]] = (room.player, room.crates)
    seen = {begun}
    queue: deque[tuple[tuple[Place, frozenset[Place]], tuple[int, ...]]] = deque([(begun, ())])
    while queue:
        (player, crates), path = queue.popleft()
        for action, way in MOVES.items() if len(path) < longest else ():
            room.player, room.crates = player, crates
            room.move(way)
            reached = (room.player, room.crates)
            if room.solved:
                return (*path, action)
            if reached not in seen:
                seen.add(reached)
                queue.append((reached, (*path, action)))
    return ()


if __name__ == "__main__":
    raise SystemExit(main(RagenRows()))
