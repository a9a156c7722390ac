"""What servers, router and console read on their node: the discovery document, routes, the console's own files."""

from __future__ import annotations

import contextlib

import orjson
import yaml

from gym.files import append_end, write_atomically
from gym.labels import HEADER_PEER
from gym.plan.model import Plan
from gym.render.console_document import console_document
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.runtime.local.home import Home, prepare_home
from gym.runtime.local.publish import instance_views
from gym.runtime.local.specs import DYNAMIC_FILE, DYNAMIC_FOLDER, STATIC_FILE, redacted_plan
from gym.runtime.ray_cluster.host_order import HostOrder, StackState
from gym.wire.discovery import Discovery
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes

PEER = "gym-peer"
LOG_BYTES = 512 * 1024  # of each replica's log, for the console


def write_first_files(order: HostOrder) -> Home:
    """What does not change while the replica lives."""
    home = prepare_home(order.home)
    home.upstreams.mkdir(mode=0o700, exist_ok=True)
    if order.role == "server":
        (home.upstreams / order.service.slug).mkdir(mode=0o700, exist_ok=True)
    if order.role == "router":
        folder = home.traefik / DYNAMIC_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        access_log = str(order.log.with_name(f"{order.log.stem}-access.log"))
        static = traefik_static(order.plan, directory=str(folder), access_log=access_log)
        write_atomically(home.traefik / STATIC_FILE, static)
    if order.role == "console":
        _write_for_console(home, order.plan)
    return home


def write_state(order: HostOrder, home: Home, state: StackState) -> None:
    found = discovery_of_state(state)
    write_atomically(home.discovery, found.model_dump_json())
    if order.role == "router" and state.console:
        text = traefik_dynamic(state.plan, found, console=state.console)
        write_atomically(home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE, with_peer_token(text, order.peer_token))
    if order.role == "console":
        _write_for_console(home, state.plan)
        notes = {
            one.replica: ReplicaNote(pid=one.pid or 0, restarts=one.restarts, why=one.last_end, at=one.last_end_at)
            for one in state.replicas
        }
        write_atomically(home.notes / REPLICAS, ReplicaNotes(notes).model_dump_json())


def write_log(home: Home, replica: str, text: str, *, fresh: bool) -> None:
    """For the console to show; a full disk ends nothing."""
    path = home.log(replica)
    with contextlib.suppress(OSError):
        if fresh:
            path.unlink(missing_ok=True)
        append_end(path, text.encode("utf-8", "replace"), LOG_BYTES)


def discovery_of_state(state: StackState) -> Discovery:
    known = [one for one in state.replicas if one.url]
    views = instance_views(state.plan.services, known)
    stack, generation = state.plan.stack, state.generation
    return Discovery(stack=stack, generation=generation, router=state.router, closed=True, instances=views)


def with_peer_token(text: str, token: str) -> str:
    """The router is a peer of the servers: what it passes on to them carries the stack's own token."""
    tree = yaml.safe_load(text)
    http = tree["http"]
    http["middlewares"][PEER] = {"headers": {"customRequestHeaders": {HEADER_PEER: token}}}
    for router in http["routers"].values():
        if any(name.startswith("strip-") for name in router.get("middlewares") or ()):
            router["middlewares"] = [*router["middlewares"], PEER]
    return str(yaml.safe_dump(tree, sort_keys=False))


def _write_for_console(home: Home, plan: Plan) -> None:
    for one in plan.services:
        (home.upstreams / one.slug).mkdir(mode=0o700, exist_ok=True)
    write_atomically(home.plan, orjson.dumps(redacted_plan(plan)).decode())
    write_atomically(home.console, orjson.dumps(console_document(plan)).decode())
