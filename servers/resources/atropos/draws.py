"""What a game of bisection is about, without the library."""

from random import Random
from typing import Any

HIGHEST = {"easy": 30, "medium": 200, "hard": 2000}


def draw_game(random: Random, difficulty: str) -> dict[str, Any]:
    """As many guesses as a perfect player needs, and no more."""
    highest = HIGHEST[difficulty]
    return {"secret": random.randint(1, highest), "highest": highest, "guesses": highest.bit_length()}
