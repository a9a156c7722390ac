"""Games that share Python's one random generator, each with a state of its own."""

from __future__ import annotations

import random

from gym.server.adapters.chance import Chance


def test_games_that_take_turns_roll_as_each_would_alone() -> None:
    games = [Chance(seed) for seed in range(3)]
    rolled: list[list[float]] = [[], [], []]
    for _ in range(5):
        for game, rolls in zip(games, rolled, strict=True):
            random.random()
            with game.lent():
                rolls += [random.random(), random.gauss(0, 1)]
    for seed, rolls in enumerate(rolled):
        alone = random.Random(seed)
        assert rolls == [roll for _ in range(5) for roll in (alone.random(), alone.gauss(0, 1))]


def test_what_is_raised_while_it_is_lent_keeps_the_state() -> None:
    game = Chance(1)
    first = random.Random(1)
    try:
        with game.lent():
            assert random.random() == first.random()
            raise KeyError
    except KeyError:
        pass
    with game.lent():
        assert random.random() == first.random()
