"""Sandboxes without an engine: bubblewrap where there is one, else plain processes that somebody asked for by name."""

from gym.broker.providers.local.local_provider import Bubblewrap, Subprocess

__all__ = ["Bubblewrap", "Subprocess"]
