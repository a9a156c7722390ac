"""A server of a watched stack gets the files of its folder: its copy is renewed, and its containers start once more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gym.errors import UserError
from gym.plan.model import Change, Plan, Service
from gym.runtime.compose.choice import choose
from gym.runtime.compose.converge import Converger, containers_of
from gym.runtime.compose.layout import Layout, State, wanted_in, write_saved
from gym.runtime.compose.synced_sources import sync_sources
from gym.runtime.compose.wait import StackHealth
from gym.runtime.status import StackStatus
from gym.wire.wanted import write_wanted

READS_COPY: Final = "its files are watched: it reads a copy of them"
RUNS_IMAGE: Final = "its files are watched no longer: it runs from its image"


def reload_synced(to: Converger, watch: StackHealth, plan: Plan, names: tuple[str, ...]) -> StackStatus:
    """`plan` is asked for the sources of `names` alone: the port, and how many replicas there are, stay as they are.
    The routes tell collectors the new digest; containers keep the label that they were made with."""
    state, saved = to.layout.read_state(), watch.plan
    services = tuple(_with_sources(one, plan.service(one.name)) if one.name in names else one for one in saved.services)
    wanted = saved.model_copy(update={"services": services})
    sync_sources(to.layout.synced, wanted, state.synced)
    write_saved(to.layout, wanted, state)
    write_wanted(to.layout.wanted, wanted_in(to.layout, wanted))
    to.restart_alone(watch, choose(containers_of(to.client, to.layout), wanted, names))
    return watch.status(watch.containers())


def switched(before: Collection[str], now: Collection[str]) -> tuple[Change, ...]:
    """Instances that read their sources from elsewhere than before."""
    copies = [_switch(name, READS_COPY) for name in now if name not in before]
    return (*copies, *(_switch(name, RUNS_IMAGE) for name in before if name not in now))


def refuse_synced(layout: Layout, state: State, what: str) -> None:
    """An image of a watched server may be older than what it runs."""
    if state.synced:
        raise UserError(
            f"The stack in {layout.home} was started with --watch: its servers run from copies of their folders, and "
            f"{what} is about images.",
            "Build them first: gym up with the same words, without --watch.",
        )


def _switch(name: str, why: str) -> Change:
    return Change(action="replace", service=name, why=why)


def _with_sources(running: Service, wanted: Service | None) -> Service:
    if wanted is None:
        return running
    return running.model_copy(update=wanted.model_dump(include={"source_digest", "parts", "digest"}))
