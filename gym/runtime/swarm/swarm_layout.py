"""The files of a stack on a Swarm, below its home: those of Compose for router and console, and what is deployed.

Router and console run where these files are; the other nodes need none of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Field

from gym.config.assets import search_roots
from gym.files import read_document, write_atomically
from gym.plan.model import Plan, RouterPlan, Value
from gym.render.swarm import STACK_FILE, SwarmFacts, render_swarm, swarm_configs
from gym.runtime.compose.catalog_copies import write_catalog
from gym.runtime.compose.layout import (
    WRITABLE,
    Layout,
    State,
    compose_facts,
    wanted_in,
    write_first_routes,
    write_parts,
    write_saved,
    write_secrets,
)
from gym.runtime.upstream_folders import prepare_upstreams
from gym.wire.stack_names import TOKEN
from gym.wire.wanted import Wanted, write_wanted

EVERYWHERE: Final = "0.0.0.0"  # a Swarm publishes on every address of a node, so the router always has a token


class SwarmNotes(Value):
    """What later commands have to know, beside what a stack of Compose knows."""

    home_node: str = ""
    secrets: dict[str, str] = Field(default_factory=dict)  # by our name, the Swarm's


def for_swarm(plan: Plan) -> Plan:
    router = RouterPlan(host=EVERYWHERE, port=plan.router.port, needs_token=True)
    return plan.model_copy(update={"router": router})


def read_swarm_notes(layout: Layout) -> SwarmNotes:
    return read_document(SwarmNotes, layout.home / "swarm.json") or SwarmNotes()


def write_swarm(layout: Layout, plan: Plan, values: Mapping[str, str], state: State, notes: SwarmNotes) -> None:
    """All that is mounted and deployed. Of the secrets the token alone, with which commands here ask the router."""
    write_secrets(layout, {TOKEN: values[TOKEN]})
    write_atomically(layout.home / "swarm.json", notes.model_dump_json())
    write_parts(layout, plan, state)
    write_catalog(layout.catalog, search_roots(Path.cwd(), os.environ))
    is_new = layout.read_discovery() is None
    write_deployed(layout, plan, state)
    if is_new:
        write_first_routes(layout, plan)


def write_deployed(layout: Layout, plan: Plan, state: State) -> None:
    """Of a plan whose images and secrets are what they were. Last comes what is wanted, as on Compose."""
    for path, text in deployed_texts(layout, plan, state, read_swarm_notes(layout)).items():
        write_atomically(layout.home / path, text)
    write_saved(layout, plan, state)
    prepare_upstreams(layout.home, plan, mode=WRITABLE)
    write_wanted(layout.wanted, wanted_on_swarm(layout, plan))


def deployed_texts(layout: Layout, plan: Plan, state: State, notes: SwarmNotes) -> dict[str, str]:
    facts = SwarmFacts(
        compose=compose_facts(layout.home, plan, state), home_node=notes.home_node, secrets=notes.secrets
    )
    configs = swarm_configs(plan, state.project)
    return {STACK_FILE: render_swarm(plan, facts), **{f"configs/{name}.json": text for name, text in configs.items()}}


def wanted_on_swarm(layout: Layout, plan: Plan) -> Wanted:
    return wanted_in(layout, plan).model_copy(update={"aliased": True})
