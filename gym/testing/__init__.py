"""Stacks for tests: started, asked and gone again, on containers or as processes.

    with GymStack("mcqa", model="scripted") as stack:
        stack.connect().run(row)

With pytest the fixture `gym_stack` does the same: `gym_stack("mcqa", model="scripted")`.
"""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.testing.gym_stack import GymStack

__all__ = ["GymStack"]

__getattr__ = on_first_use(__name__)
