"""What `gym up --on ray` would give to the cluster, as files to read. Holds the value of no secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gym.config import redact
from gym.render.launch_document import launch_document
from gym.render.ray_orders import ActorInputs, actor_orders
from gym.render.render_request import RenderRequest

SHOWN = ("id", "instance", "type", "implementation", "digest", "options")


def ray_texts(request: RenderRequest) -> dict[str, str]:
    """`actors.json`, and for each instance what its server is given at its start; addresses are known only then."""
    plan = request.plan
    named = {path: f"secret://{path}" for path in request.secrets}
    orders = actor_orders(plan, ActorInputs())
    actors = {"stack": plan.stack, "actors": [_shown(one) for one in orders]}
    launch = {f"launch/{one.slug}.json": _text(redact(launch_document(plan, one, {}, named))) for one in plan.services}
    return {"actors.json": _text(actors), **launch}


def _shown(order: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: order[key] for key in SHOWN}
    return {**kept, "lifetime": "detached", "max_restarts": -1, "drain_seconds": order["drain_seconds"]}


def _text(tree: Any) -> str:
    return orjson.dumps(tree, option=orjson.OPT_INDENT_2).decode() + "\n"
