"""Plan -> the processes that make it real: what each is, what it runs, which variables it gets. Touches nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from gym import labels
from gym.config import redact
from gym.files import asset_dir
from gym.plan.model import Plan, Service
from gym.plan.model_upstreams import takes_upstreams
from gym.render.launch_document import HEAD, Address, launch_document, upstream_name
from gym.render.traefik import OUTSIDE, route_prefix
from gym.runtime.local.child_process import CONFIG_FD, LISTENER_FD, ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.replica_role import ReplicaRole
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.results_folder import results_folder
from gym.runtime.sandbox_access import access_environ
from gym.runtime.sandbox_leftovers import config_path
from gym.wire.stack_names import SANDBOX
from gym.wire.telemetry import ENDPOINTS, read_telemetry
from gym.wire.telemetry import KEY as TELEMETRY

LONGEST_VARIABLE = 100_000  # Linux takes 128 KiB in one environment variable
ROUTER, CONSOLE = "router", "console"
DRAIN_ROUTER_SECONDS = 5.0
STATIC_FILE, DYNAMIC_FOLDER, DYNAMIC_FILE = "static.yml", "dynamic", "stack.yml"


def binds_itself(service: Service) -> bool:
    """A server written against nemo_gym gets a host and a port; one of ours gets the listening socket."""
    return service.launch == "script"


def service_member(service: Service, replica: str) -> ReplicaRole:
    known = ReplicaRole(service.name, replica, service.type, service.implementation)
    # One that was not written for us has no /healthz; whatever it answers, it is there.
    return replace(known, health_path="/", wrong=frozenset()) if binds_itself(service) else known


def service_spec(
    order: StackOrder, home: Home, service: Service, replica: str, addresses: Mapping[str, Address]
) -> ProcessSpec:
    """`addresses` as this replica sees them, its own among them."""
    document = orjson.dumps(launch_document(order.plan, service, addresses, order.secrets))
    variables, inherited = _config_variables(document, fits=binds_itself(service) or len(document) <= LONGEST_VARIABLE)
    assert service.directory is not None
    return ProcessSpec(
        id=replica,
        argv=_argv(service, order.pythons.get(service.name) or sys.executable),
        env={
            **_inherited_environ(order),
            **_python_path(order, service),
            **service.container.env,
            **variables,
            **_sandbox_access(order, service, addresses),
            **({labels.ENV_UPSTREAMS: str(home.upstreams / service.slug)} if takes_upstreams(service) else {}),
            labels.ENV_INSTANCE: service.name,
            labels.ENV_REPLICA: replica,
            labels.ENV_DISCOVERY: str(home.discovery),
            labels.ENV_LISTEN: f"fd:{LISTENER_FD}",
            labels.ENV_DRAIN: f"{order.plan.drain_seconds:g}",
            "PYTHONUNBUFFERED": "1",
        },
        cwd=service.directory,
        log=home.log(replica),
        drain_seconds=order.plan.drain_seconds,
        document=inherited,
        digest=service.digest,
    )


def addresses_for(
    order: StackOrder, service: Service, own: Address, replicas: Mapping[str, list[Address]], router: Address
) -> dict[str, Address]:
    """Where a server finds the others. One that knows no discovery document reaches several replicas by the router."""
    found: dict[str, Address] = {}
    for other in order.plan.services:
        several = replicas.get(other.name, [])
        if binds_itself(service) and len(several) > 1:
            found[other.name] = (router[0], f"{router[1]}{route_prefix(other)}")
        elif several:
            found[other.name] = several[0]
    return found | {service.name: own, HEAD: router}


def router_member() -> ReplicaRole:
    """Before it has read its files it answers 404. Afterwards it passes on to the console, or asks it for leave: what
    comes back then, a 502 of a console that is gone too, says nothing against the router."""
    return ReplicaRole(ROUTER, ROUTER, ROUTER, "traefik", wrong=frozenset({404}))


def router_spec(order: StackOrder, home: Home) -> ProcessSpec:
    return ProcessSpec(
        id=ROUTER,
        argv=(order.traefik, f"--configFile={home.traefik / STATIC_FILE}"),
        env={
            **_inherited_environ(order),
            labels.ENV_DISCOVERY: str(home.discovery),
            labels.ENV_REPLICA: ROUTER,
            "LISTEN_FDS": "1",
            "LISTEN_FDNAMES": OUTSIDE,
        },
        cwd=home.path,
        log=home.log(ROUTER),
        drain_seconds=DRAIN_ROUTER_SECONDS,
        activated=True,
    )


def console_member() -> ReplicaRole:
    return ReplicaRole(CONSOLE, CONSOLE, CONSOLE, "gym.console")


def console_spec(order: StackOrder, home: Home) -> ProcessSpec:
    token = {labels.ENV_TOKEN: order.token} if order.token else {}
    return ProcessSpec(
        id=CONSOLE,
        argv=(sys.executable, "-P", "-m", "gym.console.__main__"),
        env={
            **_inherited_environ(order),
            **token,
            labels.ENV_CONSOLE: str(home.console),
            labels.ENV_NOTES: str(home.notes),
            labels.ENV_LOGS: str(home.logs),
            labels.ENV_RESULTS: str(results_folder(order.environ.get(labels.ENV_RESULTS, ""), home.path)),
            labels.ENV_UPSTREAMS: str(home.upstreams),
            labels.ENV_DISCOVERY: str(home.discovery),
            labels.ENV_LISTEN: f"fd:{LISTENER_FD}",
            labels.ENV_REPLICA: CONSOLE,
            labels.ENV_DRAIN: f"{DRAIN_ROUTER_SECONDS:g}",
            "PYTHONUNBUFFERED": "1",
        },
        cwd=home.path,
        log=home.log(CONSOLE),
        drain_seconds=DRAIN_ROUTER_SECONDS,
    )


def sandbox_member(plan: Plan) -> ReplicaRole:
    assert plan.sandbox is not None
    return ReplicaRole(SANDBOX, SANDBOX, SANDBOX, f"gym.broker ({plan.sandbox.provider})")


def sandbox_spec(order: StackOrder, home: Home) -> ProcessSpec:
    return ProcessSpec(
        id=SANDBOX,
        argv=(sys.executable, "-P", "-m", "gym.broker"),
        env={
            **_inherited_environ(order),
            **_telemetry_environ(order),
            labels.ENV_SANDBOX_CONFIG: str(config_path(home.path)),
            labels.ENV_NOTES: str(home.notes),
            labels.ENV_DISCOVERY: str(home.discovery),
            labels.ENV_LISTEN: f"fd:{LISTENER_FD}",
            labels.ENV_REPLICA: SANDBOX,
            labels.ENV_DRAIN: f"{order.plan.drain_seconds:g}",
            "PYTHONUNBUFFERED": "1",
        },
        cwd=home.path,
        log=home.log(SANDBOX),
        drain_seconds=order.plan.drain_seconds + labels.BROKER_SECONDS,
        digest=order.plan.sandbox.digest if order.plan.sandbox else "",
    )


def _telemetry_environ(order: StackOrder) -> dict[str, str]:
    """The broker reads no configuration of the stack: a variable says where its spans go, unless the shell does."""
    url = read_telemetry(order.plan.settings.get(TELEMETRY), {}).traces_url
    return {ENDPOINTS[0]: url} if url and not any(order.environ.get(name) for name in ENDPOINTS) else {}


def redacted_plan(plan: Plan) -> dict[str, Any]:
    """The plan as it may lie on the disk."""
    tree: dict[str, Any] = plan.model_dump(mode="json")
    broker = tree["sandbox"] or {"settings": {}}
    values = {"services": [_values_of(one) for one in tree["services"]], "broker": broker["settings"]}
    values["sidecars"] = [one["spec"]["env"] for one in tree["sidecars"]]
    hidden = redact({"settings": tree["settings"], **values})
    tree["settings"], broker["settings"] = hidden["settings"], hidden["broker"]
    for sidecar, env in zip(tree["sidecars"], hidden["sidecars"], strict=True):
        sidecar["spec"]["env"] = env
    for service, values in zip(tree["services"], hidden["services"], strict=True):
        service["fields"] = values["fields"]
        service["container"]["env"] = values["env"]
    return tree


def _values_of(service: Mapping[str, Any]) -> dict[str, Any]:
    return {"fields": service["fields"], "env": service["container"]["env"]}


def _argv(service: Service, python: str) -> tuple[str, ...]:
    if binds_itself(service):
        starter = asset_dir("compose") / "base" / "gym-script"
        return (python, str(starter), upstream_name(service), service.entrypoint)
    return (python, "-P", "-m", "gym.server.serve", service.entrypoint)


def _config_variables(document: bytes, *, fits: bool) -> tuple[dict[str, str], bytes]:
    if fits:
        return {labels.ENV_CONFIG: document.decode()}, b""
    return {labels.ENV_CONFIG_FILE: f"/dev/fd/{CONFIG_FD}"}, document


def _inherited_environ(order: StackOrder) -> dict[str, str]:
    """What the user's shell had, without what only the console has to know and what only a parent may say."""
    kept_back = {
        labels.ENV_SANDBOX_CONFIG,
        labels.ENV_SANDBOX_TOKEN,
        labels.ENV_SANDBOX_URL,
        labels.ENV_TOKEN,
        labels.ENV_TOKEN_FILE,
        labels.ENV_UPSTREAMS,
        labels.ENV_CONFIG,
        labels.ENV_CONFIG_FILE,
        "LISTEN_FDS",
        "LISTEN_PID",
    }
    return {key: value for key, value in order.environ.items() if key not in kept_back}


def _sandbox_access(order: StackOrder, service: Service, addresses: Mapping[str, Address]) -> dict[str, str]:
    if service.sandbox is None or order.tokens is None:
        return {}
    host, port = addresses[SANDBOX]
    return access_environ(f"http://{host}:{port}", order.tokens.instances[service.name])


def _python_path(order: StackOrder, service: Service) -> dict[str, str]:
    """Servers written against nemo_gym import each other from the root of their repository, two folders up."""
    if not binds_itself(service) or service.directory is None:
        return {}
    root = str(service.directory.parent.parent)
    earlier = order.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(part for part in (root, earlier) if part)}
