"""Plan -> the file that `docker stack deploy` takes: each replica a service of its own, under a name that stays. Pure.

A replica holds sessions, so its address must mean this replica and no other. A service of several tasks has one name
for all of them, and the name of a task changes when it moves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic import Field

from gym import labels
from gym.errors import UserError
from gym.plan.model import Plan, Service, Value
from gym.render.compose import SETTINGS_MOUNT, ComposeFacts, compose_file
from gym.render.compose_model import ComposeService
from gym.render.compose_settings import launch_text, reads_file, settings_file
from gym.render.swarm_service import Deployed, Tree, swarm_service
from gym.render.yaml_text import double_dollars, to_yaml
from gym.wire.stack_names import CONSOLE, NETWORK, PORT, ROUTER, replica_host, service_name

STACK_FILE: Final = "stack.yaml"
NAMESPACE: Final = "com.docker.stack.namespace"  # of whatever `docker stack rm` removes
REPLICA: Final = "gym.replica"  # the number of a replica of its instance
DISCOVERY_URL: Final = f"http://{CONSOLE}:{PORT}/discovery"
GPU: Final = "NVIDIA-GPU"  # as NVIDIA's guide has nodes announce them
MANAGER: Final = "node.role == manager"


class SwarmFacts(Value):
    """What a plan does not say: what Compose would have to know too, and the names of what the Swarm keeps."""

    compose: ComposeFacts
    home_node: str = ""  # where the stack's files are, and so router and console
    secrets: dict[str, str] = Field(default_factory=dict)  # by our name, the Swarm's


def render_swarm(plan: Plan, facts: SwarmFacts) -> str:
    """The file's text. Secrets in the plan must be placeholders (`secret://NAME`) by now."""
    return to_yaml(double_dollars(swarm_file(plan, facts)), "\n# ".join(_header(plan, facts)))


def swarm_file(plan: Plan, facts: SwarmFacts) -> Tree:
    whole = compose_file(plan, facts.compose)
    project = facts.compose.project
    bases = {"service": whole.service, "server": whole.server}
    services = {
        ROUTER: _at_home(whole.services[ROUTER], bases, facts, ROUTER),
        CONSOLE: _at_home(whole.services[CONSOLE], bases, facts, CONSOLE),
    }
    for one in plan.services:
        composed = whole.services[service_name(one.slug, project)]
        for number in range(1, one.replicas + 1):
            services[f"{service_name(one.slug, project)}-{number}"] = _replica(
                plan, one, number, composed, bases, facts
            )
    configs = {
        name: {"name": f"{project}_{name}-{_digest(text)}"} for name, text in swarm_configs(plan, project).items()
    }
    used = sorted({name for one in services.values() for name in (each["source"] for each in one.get("secrets", ()))})
    files: Tree = {
        "services": services,
        "networks": {NETWORK: {"driver": "overlay", "labels": _stack_labels(facts)}},
        "configs": {name: {**each, "file": f"./configs/{name}.json"} for name, each in configs.items()},
        "secrets": {name: {"external": True, "name": facts.secrets[name]} for name in used},
    }
    return {key: value for key, value in files.items() if value}


def swarm_configs(plan: Plan, project: str) -> dict[str, str]:
    """What servers read at their start, by the name of the config that holds it; none has a secret in it."""
    texts = [(one, launch_text(plan, one, project)) for one in plan.services]
    return {_config_name(one): text for one, text in texts if reads_file(one, text)}


def check_for_swarm(plan: Plan) -> None:
    """What a Swarm cannot do, said before anything is built."""
    for one in plan.services:
        if one.container.gpus == "all":
            raise UserError(
                f"{one.name}: `gpus: all` means nothing to a Swarm, which hands them out by number.",
                "Write one: gpus: 1",
            )
    if plan.sidecars:
        raise UserError(
            f"{plan.sidecars[0].name}: services beside an instance do not run on a Swarm yet.",
            "Run this stack on one machine (gym up without --on), or give the instance the address of a shared one.",
        )
    if plan.sandbox is not None:
        raise UserError(
            f"{next(iter(plan.sandbox.grants))} asks for sandboxes, which one machine's engine makes, and no Swarm.",
            "Run this stack on one machine (gym up without --on), or several of them side by side: --shard i/n.",
        )


def service_of(project: str, service: Service, number: int) -> str:
    """As `docker service ls` shows it."""
    return f"{project}_{service_name(service.slug, project)}-{number}"


def _at_home(one: ComposeService, bases: Mapping[str, ComposeService], facts: SwarmFacts, name: str) -> Tree:
    """Beside the stack's files, which the console writes and the router reads."""
    place = f"node.id == {facts.home_node}" if facts.home_node else MANAGER
    how = Deployed(
        aliases={NETWORK: (replica_host(facts.compose.project, name, 1),)},
        # A port of a node has room for one: the old router has to go first.
        order="stop-first" if one.ports else "start-first",
        constraints=(place,),
        labels={**_stack_labels(facts), **_own_labels(one)},
    )
    return swarm_service(one, bases, how)


def _replica(
    plan: Plan,
    service: Service,
    number: int,
    composed: ComposeService,
    bases: Mapping[str, ComposeService],
    facts: SwarmFacts,
) -> Tree:
    project = facts.compose.project
    host = service_name(service.slug, project)
    environment = {**(composed.environment or {}), labels.ENV_DISCOVERY: DISCOVERY_URL}
    environment.pop(labels.ENV_UPSTREAMS, None)  # files of the home node
    settings = {_config_name(service): SETTINGS_MOUNT} if _reads_config(plan, service, project) else {}
    container = service.container
    how = Deployed(
        aliases={NETWORK: (host, replica_host(project, service.slug, number))},
        constraints=tuple(f"node.labels.{key} == {value}" for key, value in container.placement.items()),
        labels={**_stack_labels(facts), **_own_labels(composed), REPLICA: str(number)},
        reserved={
            **({"cpus": f"{container.cpus:g}"} if container.cpus else {}),
            **({"memory": _bytes(container.memory)} if container.memory else {}),
            **({"generic_resources": [_gpus(int(container.gpus))]} if container.gpus else {}),
        },
        configs=settings,
    )
    bare = composed.model_copy(
        update={"environment": environment, "volumes": None, "deploy": None, "extra_hosts": None, "depends_on": None}
    )
    return swarm_service(bare, bases, how)


def _gpus(count: int) -> Tree:
    return {"discrete_resource_spec": {"kind": GPU, "value": count}}


def _bytes(memory: str | None) -> str:
    return str(memory)


def _reads_config(plan: Plan, service: Service, project: str) -> bool:
    return reads_file(service, launch_text(plan, service, project))


def _config_name(service: Service) -> str:
    return (
        settings_file(service).rpartition("/")[2].removesuffix(".json")[:15].rstrip("-")
        + f"-{_digest(service.slug)[:4]}"
    )


def _stack_labels(facts: SwarmFacts) -> dict[str, str]:
    return {labels.STACK_DIR: facts.compose.home, labels.OWNER: facts.compose.owner}


def _own_labels(one: ComposeService) -> dict[str, str]:
    return dict(one.labels or {})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _header(plan: Plan, facts: SwarmFacts) -> list[str]:
    project = facts.compose.project
    return [
        f'Stack "{plan.stack}": {len(plan.services)} instances behind one router. Written by gym.',
        f"In the folder of the stack: docker stack deploy -c {STACK_FILE} {project}",
    ]
