"""URLs of this machine, which a container cannot see under `localhost`, by the name that it has from inside. Pure."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gym.config.plain_trees import change_texts, texts_of
from gym.labels import HOST_FROM_INSIDE

if TYPE_CHECKING:  # the console rewrites URLs and has no plan
    from gym.plan.model import Plan, Service

LOOPBACK_URL: Final = re.compile(
    r"^(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/@]*@)?(localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\])(?=[:/?#]|$)"
)


class HostUrl(NamedTuple):
    key: str  # "policy_model.openai_base_url"
    url: str  # as the user wrote it


def reach_host(plan: Plan) -> Plan:
    """The plan with every such URL rewritten."""
    settings = {**rewrite_urls(plan.settings), "policy_host": HOST_FROM_INSIDE}  # for URLs that come with rollouts
    return plan.model_copy(update={"services": tuple(map(_rewrite_service, plan.services)), "settings": settings})


def find_host_urls(plan: Plan) -> tuple[HostUrl, ...]:
    """What `reach_host` rewrites, settings first."""
    found = [*texts_of(plan.settings)]
    for one in plan.services:
        found += texts_of(one.fields, one.name)
        found += texts_of(one.container.env, f"{one.name}.env")
    return tuple(HostUrl(key, text) for key, text in found if LOOPBACK_URL.match(text))


def rewrite_urls(tree: Any) -> Any:
    from_inside = partial(LOOPBACK_URL.sub, lambda found: f"{found['scheme']}{found['user'] or ''}{HOST_FROM_INSIDE}")
    return change_texts(tree, from_inside)


def _rewrite_service(service: Service) -> Service:
    container = service.container.model_copy(update={"env": rewrite_urls(service.container.env)})
    return service.model_copy(update={"fields": rewrite_urls(service.fields), "container": container})
