"""Two commands that remove one stack at once: what the other one was quicker with is removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import docker.errors

from gym.runtime.compose.teardown import remove_stack


class Quicker:
    """An engine on which another command removes the network between the list and the look at it."""

    def __init__(self) -> None:
        self.there = [{"Id": "n1"}]

    def containers(self, **_: Any) -> list[Any]:
        return []

    def networks(self, **_: Any) -> list[dict[str, str]]:
        return list(self.there)

    def volumes(self, **_: Any) -> dict[str, Any]:
        return {"Volumes": None}

    def inspect_network(self, name: str) -> dict[str, Any]:
        self.there = []
        raise docker.errors.NotFound(f"network {name} not found")


def test_a_network_that_another_command_removed_just_now_is_removed() -> None:
    api = Quicker()
    client: Any = SimpleNamespace(api=api)
    assert remove_stack(client, "/home", "gym-demo-1", grace=1.0)
    assert not api.there
    assert not remove_stack(client, "/home", "gym-demo-1", grace=1.0)
