"""What a Swarm would be given of a stack that need not run: `gym render --target swarm`."""

from __future__ import annotations

from pathlib import Path

from gym import labels
from gym.render.compose import ROUTER_IMAGE
from gym.render.render_request import RenderRequest
from gym.runtime.compose.layout import Layout, state_of, static_text
from gym.runtime.swarm.swarm_engine import images_in_registry
from gym.runtime.swarm.swarm_layout import SwarmNotes, deployed_texts
from gym.runtime.swarm.swarm_runtime import SwarmRuntime
from gym.wire.stack_names import TOKEN

NO_TOKEN = "(set where it is deployed)"


def swarm_texts(asked: RenderRequest) -> dict[str, str]:
    """The stack file, the configs it names and the router's static file. The secrets it names are in none of them."""
    layout = Layout(Path.cwd() / ".gym" / asked.plan.stack)
    given = {labels.ENV_TOKEN: NO_TOKEN, **asked.secrets}
    prepared = SwarmRuntime().prepare(layout.home, asked.plan, given)
    assert prepared.images is not None
    state = state_of(layout.home, prepared)
    placed = images_in_registry(prepared.images, asked.registry.rstrip("/"))
    state = state.model_copy(
        update={
            "images": {name: placed.get(image, image) for name, image in state.images.items()},
            "base_image": placed[state.base_image],
            "router_image": placed[ROUTER_IMAGE],
        }
    )
    named = {name: f"{state.project}_{name[:15].rstrip('-_')}" for name in {*prepared.secrets, TOKEN}}
    texts = deployed_texts(layout, prepared.plan, state, SwarmNotes(secrets=named))
    return texts | {"traefik/static.yml": static_text(prepared.plan)}
