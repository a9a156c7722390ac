"""Compose Gym: container-native reinforcement-learning environments for language models."""

from typing import NoReturn

__version__ = "0.1.0"

_OF_OPENAI_GYM = frozenset(("make", "register", "Env", "Wrapper", "spaces", "wrappers", "envs", "vector"))


def __getattr__(name: str) -> NoReturn:
    """Called for what the package does not have: code that means OpenAI's `gym` gets an error that says so."""
    if name in _OF_OPENAI_GYM:
        raise ImportError(
            f"gym.{name}: `import gym` is Compose Gym here, not OpenAI's gym; its successor does the same: "
            "write `import gymnasium as gym`, and gymnasium in requirements.txt"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
