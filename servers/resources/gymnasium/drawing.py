"""What the model sees of an environment, and what it may write."""

import json
import re
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete

MARKED = re.compile(r"\x1b\[4\dm(.*?)\x1b\[0m")  # where a toy-text environment says by colour: you are here
COLOURS = re.compile(r"\x1b\[[\d;]*m")


def draw(environment: gymnasium.Env[Any, Any], observation: Any) -> str:
    """The drawing, with the coloured place in brackets, and the observation as the package has it."""
    drawing = environment.render() if environment.render_mode == "ansi" else None
    picture = COLOURS.sub("", MARKED.sub(r"[\1]", str(drawing))).strip("\n") + "\n" if drawing else ""
    return f"{picture}Observation: {observation}\nActions: {describe(environment.action_space)}"


def describe(space: Any) -> str:
    if isinstance(space, Discrete):
        return f"a whole number from {space.start} to {space.start + space.n - 1}"
    return f"JSON for {space}"


def read_action(space: Any, action: str) -> Any:
    """The action in the space; ValueError says what would be one."""
    if isinstance(space, Discrete):
        chosen = int(action) if re.fullmatch(r"-?\d{1,18}", action) else None
        if chosen is None or not space.contains(chosen):
            raise ValueError(f"{action[:80]!r} is not {describe(space)}")
        return chosen
    try:
        chosen = space.from_jsonable([json.loads(action)])[0]
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{action[:80]!r} is not {describe(space)}: {error}") from None
    if not space.contains(chosen):
        raise ValueError(f"{action[:80]!r} is not {describe(space)}")
    return chosen
