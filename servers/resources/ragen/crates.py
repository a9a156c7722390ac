"""Crates in a room, to be pushed onto marks: made backwards so that it can be solved. In RAGEN's style."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Place = tuple[int, int]
MOVES: dict[int, Place] = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}
TRIES = 200  # rooms that are begun before a configuration is said to have none


@dataclass
class CratesConfig:
    height: int = 5
    width: int = 5
    crates: int = 1
    pillars: int = 2
    pulls: int = 30  # random moves, from the solved room backwards
    action_lookup: dict[int, str] = field(default_factory=lambda: {1: "Up", 2: "Down", 3: "Left", 4: "Right"})

    def __post_init__(self) -> None:
        if not (2 <= self.height <= 12 and 2 <= self.width <= 12 and 1 <= self.crates <= 4 and 0 <= self.pillars <= 20):
            raise ValueError("2 to 12 high and wide, 1 to 4 crates, at most 20 pillars")
        if self.crates * 2 + self.pillars + 1 > self.height * self.width:
            raise ValueError("more things than places")


class Crates:
    """`#` wall, `.` floor, `o` mark, `x` crate, `*` crate on a mark, `@` you, `+` you on a mark."""

    player: Place
    crates: frozenset[Place]
    marks: frozenset[Place]
    pillars: frozenset[Place]

    def __init__(self, config: CratesConfig | None = None) -> None:
        self.config = config or CratesConfig()

    def reset(self, seed: int | None = None, mode: str | None = None) -> str:
        random = Random(f"{mode}:{seed}")
        for _ in range(TRIES):
            if self._draw_room(random):
                return self.render()
        raise ValueError(f"no room was found for {self.config}")

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        before = self.on_marks
        moved = self.move(MOVES[action])
        gained = (self.on_marks - before) / len(self.marks)
        info = {"action_is_effective": moved, "action_is_valid": True, "success": self.solved}
        return self.render(), gained, self.solved, info

    def render(self) -> str:
        rows = range(-1, self.config.height + 1)
        return "\n".join(
            "".join(self._sign((row, column)) for column in range(-1, self.config.width + 1)) for row in rows
        )

    @property
    def on_marks(self) -> int:
        return len(self.crates & self.marks)

    @property
    def solved(self) -> bool:
        return self.crates == self.marks

    def move(self, way: Place) -> bool:
        ahead = add(self.player, way)
        if ahead in self.crates:
            behind = add(ahead, way)
            if not self.is_floor(behind) or behind in self.crates:
                return False
            self.crates = self.crates - {ahead} | {behind}
        elif not self.is_floor(ahead):
            return False
        self.player = ahead
        return True

    def is_floor(self, place: Place) -> bool:
        row, column = place
        return 0 <= row < self.config.height and 0 <= column < self.config.width and place not in self.pillars

    def _draw_room(self, random: Random) -> bool:
        """Whether every crate has left its mark, at the end of a walk backwards."""
        config = self.config
        places = [(row, column) for row in range(config.height) for column in range(config.width)]
        drawn = random.sample(places, config.crates + config.pillars + 1)
        self.marks = self.crates = frozenset(drawn[: config.crates])
        self.pillars = frozenset(drawn[config.crates : -1])
        self.player = drawn[-1]
        for _ in range(config.pulls):
            self._pull(random.choice(list(MOVES.values())))
        return not self.on_marks

    def _pull(self, way: Place) -> None:
        """A step back; the crate on the other side comes along."""
        ahead, behind = add(self.player, way), add(self.player, (-way[0], -way[1]))
        if not self.is_floor(ahead) or ahead in self.crates:
            return
        if behind in self.crates:
            self.crates = self.crates - {behind} | {self.player}
        self.player = ahead

    def _sign(self, place: Place) -> str:
        if not self.is_floor(place):
            return "#"
        marked = place in self.marks
        if place == self.player:
            return "+" if marked else "@"
        if place in self.crates:
            return "*" if marked else "x"
        return "o" if marked else "."


def add(place: Place, way: Place) -> Place:
    return place[0] + way[0], place[1] + way[1]
