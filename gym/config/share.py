"""`share` at the top of a configuration: whether agents that come with gym, and the scripted model, share a process
where they are alike. An instance's own `share` wins over it, and for other servers only that counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gym.config.nodes import Findings, Node, describe
from gym.files import own_root
from gym.wire.server_types import AGENTS, MODELS

if TYPE_CHECKING:
    from gym.config.model import Instance

SHARE: Final = "share"
SCRIPTED: Final = "scripted"


def read_share(tree: Node, findings: Findings) -> bool | None:
    """None where it says nothing."""
    node = tree.child(SHARE)
    if node is None or not node.known or node.value is None:
        return None
    if not isinstance(node.value, bool):
        what = f"must be true or false; found {describe(node.value)}"
        findings.add(node, SHARE, what, "Write `share: false`; an instance's own `share` wins over it.")
        return None
    return node.value


class Sharing(Protocol):
    """An instance, or the service that a plan makes of it."""

    @property
    def type(self) -> str: ...

    @property
    def implementation(self) -> str: ...

    @property
    def directory(self) -> Path | None: ...

    @property
    def image_digest(self) -> str: ...


def apply_share(instances: Sequence[Instance], share: bool) -> tuple[Instance, ...]:
    """To those that say nothing and are known to share; which of them are alike is for the plan to see."""
    return tuple(
        one.model_copy(update={"container": one.container.model_copy(update={"share": share})})
        if one.container.share is None and is_known_to_share(one)
        else one
        for one in instances
    )


def is_known_to_share(instance: Sharing) -> bool:
    """Its code keeps nothing outside of its instance: another author's might."""
    kind = instance.type == AGENTS or (instance.type == MODELS and instance.implementation == SCRIPTED)
    ours = instance.directory is not None and instance.directory.is_relative_to(own_root() / "servers")
    return kind and ours and not instance.image_digest
