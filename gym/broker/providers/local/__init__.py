"""Sandboxes without an engine: bubblewrap, or plain processes where the user asked for them by name."""

from gym.broker.providers.local.local_provider import Bubblewrap, Subprocess

__all__ = ["Bubblewrap", "Subprocess"]
