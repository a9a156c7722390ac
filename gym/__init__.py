"""Compose Gym: container-native reinforcement-learning environments for language models."""

__version__ = "0.1.0"
