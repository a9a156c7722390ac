"""Plan -> Compose file: every instance a service of its own image, one router, one console, one network. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import Field

from gym import labels
from gym.config.plain_trees import texts_of
from gym.labels import HOST_FROM_INSIDE
from gym.plan.model import Plan, Service, Value
from gym.plan.model_upstreams import FOLDER, takes_upstreams
from gym.plan.shared_processes import shared_processes
from gym.render.compose_model import (
    MEMORY_GB,
    ComposeFile,
    ComposeNetwork,
    ComposeService,
    Condition,
    Deploy,
    Device,
    Logging,
    Mount,
    Port,
    Reservations,
    Resources,
    Secret,
    served,
)
from gym.render.compose_settings import launch_text, reads_file, settings_file
from gym.render.compose_shared import UPSTREAMS_FOLDER, shared_comment, shared_name, shared_service
from gym.render.compose_sidecars import (
    network_with_sidecars,
    sidecar_networks,
    sidecar_secrets,
    sidecar_services,
    sidecar_volumes,
    wait_for_sidecars,
)
from gym.render.compose_yaml import compose_to_yaml
from gym.render.server_variables import SECRET, sandbox_secret, server_command, server_environment
from gym.wire.server_types import KINDS
from gym.wire.stack_names import (
    CONSOLE,
    LOG_PORT,
    NETWORK,
    PORT,
    ROUTER,
    ROUTES_FILE,
    SANDBOX,
    SYNCED_FOLDER,
    TOKEN,
    service_name,
)
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import read_telemetry

ROUTER_IMAGE: Final = "traefik:v3.7"
SANDBOXES: Final = "sandboxes"  # the network that the broker shares with those who may ask it
EGRESS: Final = "egress"  # the broker's way out, where a grant lets sandboxes `allow` hosts: it is their gate
ENGINE_SOCKET: Final = "/var/run/docker.sock"
OUTSIDE_PORT: Final = 11001  # the router's entry point that the host publishes; the inside one has the well-known port
SETTINGS_MOUNT: Final = "/run/gym-config.json"
WANTED_MOUNT: Final = "/run/gym-wanted"
SOURCES_MOUNT: Final = "/app"  # where the base's images have the server's folder
NOTES_MOUNT: Final = "/run/gym-notes"
CATALOG_MOUNT: Final = "/run/gym-catalog"
LOGS_MOUNT: Final = "/run/gym-logs"
RESULTS_MOUNT: Final = "/results"
HOST_ENTRY: Final = (f"{HOST_FROM_INSIDE}:host-gateway",)
USER: Final = "10001:10001"
MEMORY: Final = f"{MEMORY_GB}g"
PIDS: Final = 1024
# For connections of programs that set nothing of their own, the router's among them: a peer that sent nothing
# for 9 s has gone, and so has one that did not acknowledge for 12.6 s. What lives and reads slowly is left alone.
SYSCTLS: Final = {
    "net.ipv4.tcp_keepalive_time": 3,
    "net.ipv4.tcp_keepalive_intvl": 2,
    "net.ipv4.tcp_keepalive_probes": 3,
    "net.ipv4.tcp_retries2": 5,
}


class ComposeFacts(Value):
    """What a plan does not say: names of this machine, and what was built."""

    project: str
    home: str
    owner: str
    base_image: str
    images: dict[str, str]  # instance, or sidecar -> image
    router_image: str = ROUTER_IMAGE
    secrets: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # instance -> names of its secrets
    synced: tuple[str, ...] = ()  # instances that read their sources from a copy, instead of from their image
    static_digest: str = ""  # of what the router reads once: another one means another router
    engine_socket: str = ENGINE_SOCKET  # on the host; the sandbox broker's alone
    engine_group: int | None = None  # who may open it
    results: str = ""  # folder of collected rollouts, for the console
    results_writable: bool = False


def render_compose(plan: Plan, facts: ComposeFacts) -> str:
    """The file's text. Secrets in the plan must be placeholders (`secret://NAME`) by now."""
    return compose_to_yaml(compose_file(plan, facts), header=_header(plan), comments=_comments(plan, facts))


def compose_file(plan: Plan, facts: ComposeFacts) -> ComposeFile:
    servers = _servers(plan, facts)
    token = (TOKEN,) if plan.router.needs_token else ()
    asked = (*(_secret_names(one, facts) for one in plan.services), *map(sidecar_secrets, plan.sidecars))
    names = sorted({name for each in asked for name in each} | set(token))
    broker = {SANDBOX: _broker(plan, facts)} if plan.sandbox else {}
    beside = sidecar_services(plan, facts.project, facts.images)
    return ComposeFile(
        name=facts.project,
        labels={labels.STACK: plan.stack, labels.STACK_DIR: facts.home, labels.OWNER: facts.owner},
        service=_hardened(plan),
        server=ComposeService(read_only=True, tmpfs=("/tmp",), healthcheck=served()),
        services={ROUTER: _router(plan, facts), CONSOLE: _console(plan, facts, token), **broker, **servers, **beside},
        networks=_networks(plan) | sidecar_networks(plan),
        volumes=sidecar_volumes(plan),
        secrets={name: Secret(file=f"./secrets/{name}") for name in names},
    )


def _servers(plan: Plan, facts: ComposeFacts) -> dict[str, ComposeService]:
    """What shares a process is one service; further replicas of an instance in there have their own."""
    alone = {one.name: _server(plan, one, facts) for one in plan.services}
    shared = {
        shared_name(process, facts.project): shared_service(
            plan, process, [alone[one.name] for one in members], facts.project
        )
        for process, members in shared_processes(plan).items()
    }
    own = (one for one in plan.services if one.own_replicas or not one.process)
    return {service_name(one.slug, facts.project): alone[one.name] for one in own} | shared


def _networks(plan: Plan) -> dict[str, ComposeNetwork]:
    broker = {SANDBOXES: ComposeNetwork(internal=True)} if plan.sandbox else {}
    return {NETWORK: ComposeNetwork(), **broker, **({EGRESS: ComposeNetwork()} if _has_gate(plan) else {})}


def _has_gate(plan: Plan) -> bool:
    return plan.sandbox is not None and any("allow" in grant.network for grant in plan.sandbox.grants.values())


def _hardened(plan: Plan) -> ComposeService:
    return ComposeService(
        init=True,
        restart="unless-stopped",
        cap_drop=("ALL",),
        security_opt=("no-new-privileges:true",),
        mem_limit=MEMORY,
        pids_limit=PIDS,
        networks=(NETWORK,),
        sysctls=SYSCTLS,
        logging=Logging(),
        stop_grace_period=f"{plan.drain_seconds + 10:g}s",
    )


def _server(plan: Plan, service: Service, facts: ComposeFacts) -> ComposeService:
    secrets = _secret_names(service, facts)
    text = launch_text(plan, service, facts.project)
    in_file = reads_file(service, text)
    environment = {
        **server_environment(service),
        labels.ENV_INSTANCE: service.name,
        **({labels.ENV_CONFIG_FILE: SETTINGS_MOUNT} if in_file else {labels.ENV_CONFIG: text}),
        labels.ENV_DISCOVERY: "/run/gym/discovery.json",
        labels.ENV_DRAIN: f"{plan.drain_seconds:g}",
        **({labels.ENV_LOG_COPIES: f"{CONSOLE}:{LOG_PORT}"} if service.launch == "sdk" else {}),
        **({labels.ENV_UPSTREAMS: UPSTREAMS_FOLDER} if takes_upstreams(service) else {}),
    }
    volumes = [Mount(source="./discovery", target="/run/gym")]
    if takes_upstreams(service):
        volumes.append(Mount(source=f"./{FOLDER}/{service.slug}", target=UPSTREAMS_FOLDER))
    if in_file:
        volumes.append(Mount(source=f"./{settings_file(service)}", target=SETTINGS_MOUNT))
    if service.name in facts.synced:
        volumes.append(Mount(source=f"./{SYNCED_FOLDER}/{service.slug}", target=SOURCES_MOUNT))
    ours = service.launch == "sdk"
    return ComposeService(
        base="service" if service.launch == "image" else "server",
        image=facts.images[service.name],
        command=server_command(service),
        environment=environment,
        secrets=secrets or None,
        volumes=tuple(volumes),
        extra_hosts=HOST_ENTRY if _reaches_host(service) or _traces_to_host(plan, service) else None,
        deploy=_deploy(service),
        depends_on=_depends_on(plan, service, facts.project),
        networks=_networks_of(plan, service),
        cpus=service.container.cpus,
        mem_limit=service.container.memory,
        user=USER if service.image_digest else None,  # whatever its image says: who packed it is not who runs it
        read_only=None if ours or service.launch == "image" else False,  # it may write beside its code
        healthcheck=served("/", "any") if service.launch == "script" else None,
        labels={
            labels.INSTANCE: service.name,
            labels.TYPE: service.type,
            labels.DIGEST: service.digest,
            **({labels.SETTINGS: hashlib.sha256(text.encode()).hexdigest()[:12]} if in_file else {}),
        },
    )


def _depends_on(plan: Plan, service: Service, project: str) -> tuple[str, ...] | dict[str, Condition] | None:
    waits = wait_for_sidecars(plan, service, project)
    if not waits or not service.sandbox:
        return waits or ((SANDBOX,) if service.sandbox else None)
    return {SANDBOX: Condition(condition="service_started"), **waits}


def _networks_of(plan: Plan, service: Service) -> tuple[str, ...] | None:
    more = (*((SANDBOXES,) if service.sandbox else ()), *network_with_sidecars(plan, service))
    return (NETWORK, *more) if more else None


def _secret_names(service: Service, facts: ComposeFacts) -> tuple[str, ...]:
    own = facts.secrets.get(service.name, ())
    return (*own, sandbox_secret(service)) if service.sandbox else own


def _reaches_host(service: Service) -> bool:
    """A model server may get such a URL at run time, a rollout may bring one along, a secret may be one."""
    own = texts_of([service.fields, service.container.env])
    hidden = str(service.fields.get("state", "")).startswith(SECRET)
    return takes_upstreams(service) or hidden or any(HOST_FROM_INSIDE in text for _, text in own)


def _traces_to_host(plan: Plan, service: Service | None = None) -> bool:
    """The router reports spans too; of the servers, ours alone."""
    where = read_telemetry(plan.settings.get(TELEMETRY), {}).otlp
    return HOST_FROM_INSIDE in where and (service is None or service.launch == "sdk")


def _deploy(service: Service) -> Deploy:
    """Always written, for one replica too: with and without it Compose hashes a service differently and replaces it."""
    facts = service.container
    gpus = Device(count="all" if facts.gpus == "all" else int(facts.gpus)) if facts.gpus else None
    reserved = Resources(reservations=Reservations(devices=(gpus,))) if gpus else None
    return Deploy(replicas=service.own_replicas, resources=reserved)


def _router(plan: Plan, facts: ComposeFacts) -> ComposeService:
    return ComposeService(
        base="service",
        image=facts.router_image,
        command=("--configFile=/etc/traefik/static.yml",),
        volumes=(Mount(source="./traefik", target="/etc/traefik"),),
        ports=(Port(host=plan.router.host, published=plan.router.port, target=OUTSIDE_PORT),),
        extra_hosts=HOST_ENTRY if _traces_to_host(plan) else None,
        user=USER,
        read_only=True,
        labels={labels.INSTANCE: ROUTER, labels.TYPE: ROUTER, labels.DIGEST: facts.static_digest},
    )


def _console(plan: Plan, facts: ComposeFacts, token: tuple[str, ...]) -> ComposeService:
    """It keeps the routes, and alone in the stack may write them."""
    environment = {
        labels.ENV_LISTEN: f"0.0.0.0:{PORT}",
        labels.ENV_DISCOVERY: "/run/gym/discovery.json",
        labels.ENV_CONSOLE: "/run/gym/console.json",
        labels.ENV_WANTED: WANTED_MOUNT,
        labels.ENV_ROUTES: f"/run/gym-routes/{ROUTES_FILE}",
        labels.ENV_UPSTREAMS: UPSTREAMS_FOLDER,
        labels.ENV_NOTES: NOTES_MOUNT,
        labels.ENV_CATALOG: CATALOG_MOUNT,
        labels.ENV_LOGS: LOGS_MOUNT,
        labels.ENV_LOG_COPIES: f"127.0.0.1:{LOG_PORT}",
        **({labels.ENV_RESULTS: RESULTS_MOUNT} if facts.results else {}),
    }
    results = Mount(source=facts.results, target=RESULTS_MOUNT, writable=facts.results_writable)
    return ComposeService(
        base="server",
        image=facts.base_image,
        command=("python", "-m", "gym.console"),
        environment=environment | ({labels.ENV_TOKEN_FILE: f"/run/secrets/{TOKEN}"} if token else {}),
        secrets=token or None,
        volumes=(
            Mount(source="./discovery", target="/run/gym", writable=True),
            Mount(source="./traefik/dynamic", target="/run/gym-routes", writable=True),
            Mount(source="./wanted", target=WANTED_MOUNT),
            Mount(source="./notes", target=NOTES_MOUNT),
            Mount(source="./catalog", target=CATALOG_MOUNT),
            Mount(source="./logs", target=LOGS_MOUNT, writable=True),
            Mount(source=f"./{FOLDER}", target=UPSTREAMS_FOLDER, writable=True),
            *((results,) if facts.results else ()),
        ),
        labels={labels.INSTANCE: CONSOLE, labels.TYPE: CONSOLE},
    )


def _broker(plan: Plan, facts: ComposeFacts) -> ComposeService:
    """It alone has the engine's socket: no port, only servers with a grant beside it, a way out only as their gate."""
    assert plan.sandbox is not None
    return ComposeService(
        base="server",
        image=facts.base_image,
        command=("python", "-m", "gym.broker"),
        environment={
            labels.ENV_LISTEN: f"0.0.0.0:{PORT}",
            labels.ENV_SANDBOX_CONFIG: "/run/gym-sandbox/config.json",
            labels.ENV_DRAIN: f"{plan.drain_seconds:g}",
            labels.ENV_WANTED: WANTED_MOUNT,
            labels.ENV_NOTES: NOTES_MOUNT,
            "DOCKER_HOST": f"unix://{ENGINE_SOCKET}",
        },
        volumes=(
            Mount(source=facts.engine_socket, target=ENGINE_SOCKET),
            Mount(source="./wanted", target=WANTED_MOUNT),
            Mount(source="./notes", target=NOTES_MOUNT, writable=True),
            Mount(source="./sandbox", target="/run/gym-sandbox"),
            Mount(source="./sandbox/state", target="/run/gym-sandbox/state", writable=True),
        ),
        group_add=(str(facts.engine_group),) if facts.engine_group is not None else None,
        networks=(SANDBOXES, EGRESS) if _has_gate(plan) else (SANDBOXES,),
        stop_grace_period=f"{plan.drain_seconds + labels.BROKER_SECONDS:g}s",
        labels={labels.INSTANCE: SANDBOX, labels.TYPE: SANDBOX, labels.DIGEST: plan.sandbox.digest},
    )


def _header(plan: Plan) -> str:
    return (
        f'Stack "{plan.stack}": {len(plan.services)} servers behind one router. Written by gym, and replaced\n'
        "by the next `gym up`: changes of your own go into another file, gym up ... -f override.yaml\n"
        "Plain Compose takes it too: docker compose -f compose.yaml up -d"
    )


def _comments(plan: Plan, facts: ComposeFacts) -> dict[str, str]:
    """A line above each service: what it is."""
    ours = {
        ROUTER: "the one way in: to every server, and to the console",
        CONSOLE: "pages and figures of the stack; keeps the router's routes",
        SANDBOX: "makes sandboxes; the only one that holds the engine's socket",
    }
    shared = {shared_name(one, facts.project): shared_comment(each) for one, each in shared_processes(plan).items()}
    return ours | shared | {service_name(one.slug, facts.project): _comment(one) for one in plan.services}


def _comment(service: Service) -> str:
    about = str(service.fields.get("description") or "")
    asks = f"asks {', '.join(service.needs)}" if service.needs else ""
    agent = service.type == "responses_api_agents"
    what = f"{KINDS[service.type]}{'' if agent else ' server'} {service.implementation}"
    return " ".join(": ".join(one for one in (what, about or asks) if one).split())
