"""The files of a Compose stack below its home, written before it starts. Values of secrets are only in secrets/."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from gym import labels
from gym.plan.model import Plan, Value
from gym.render.compose import (
    CONSOLE,
    ENGINE_SOCKET,
    OUTSIDE_PORT,
    PORT,
    TOKEN,
    ComposeFacts,
    is_long,
    launch_text,
    project_name,
    render_compose,
    sandbox_secret,
)
from gym.render.console import console_document
from gym.render.files import write_atomically
from gym.render.traefik import INSIDE, OUTSIDE, traefik_dynamic, traefik_static
from gym.runtime.compose.engine import engine_host, socket_facts
from gym.runtime.compose.images import owner
from gym.runtime.compose.sealing import named_in
from gym.runtime.sandbox import keep_tokens, prepare_state, write_config
from gym.wire.discovery import Discovery

# Read by other users inside containers; nobody else can, for the home is 0700 and holds no secret elsewhere.
SHARED: Final = 0o644
CONSOLE_URL: Final = f"http://{CONSOLE}:{PORT}"


class State(Value):
    """What later commands have to know beyond the plan."""

    project: str
    overrides: tuple[str, ...] = ()
    images: dict[str, str] = {}
    base_image: str = ""


@dataclass(frozen=True)
class Layout:
    home: Path

    @property
    def compose(self) -> Path:
        return self.home / "compose.yaml"

    @property
    def build(self) -> Path:
        return self.home / "build"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets"

    @property
    def discovery(self) -> Path:
        return self.home / "discovery" / "discovery.json"

    @property
    def traefik(self) -> Path:
        return self.home / "traefik"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def project_of(self, plan: Plan) -> str:
        return project_name(plan.stack, self.home)

    def read_plan(self) -> Plan | None:
        try:
            return Plan.model_validate_json((self.home / "plan.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def read_state(self) -> State:
        try:
            return State.model_validate_json((self.home / "state.json").read_bytes())
        except (OSError, ValidationError):
            return State(project=project_name(self.home.name, self.home))

    def write_state(self, state: State) -> None:
        write_atomically(self.home / "state.json", state.model_dump_json())

    def read_discovery(self) -> Discovery | None:
        try:
            return Discovery.model_validate_json(self.discovery.read_bytes())
        except (OSError, ValidationError):
            return None

    def read_token(self) -> str:
        path = self.secrets / TOKEN
        return path.read_text("utf-8") if path.is_file() else ""


def write_stack(layout: Layout, plan: Plan, values: Mapping[str, str], state: State) -> bool:
    """Everything that containers mount and Compose reads; True when the Compose file is another than before."""
    _write_secrets(layout, {**values, **_write_broker(layout, plan)})
    write_atomically(layout.traefik / "static.yml", _static(plan), mode=SHARED)
    write_atomically(layout.home / "discovery" / "console.json", _json(console_document(plan)), mode=SHARED)
    for service in plan.services:
        text = launch_text(plan, service, state.project)
        if is_long(text):
            write_atomically(layout.home / "config" / f"{service.slug}.json", text, mode=SHARED)
    for folder in ("discovery", "traefik"):
        (layout.home / folder).chmod(0o755)
    write_saved(layout, plan, state)
    return write_compose(layout, plan)


def write_saved(layout: Layout, plan: Plan, state: State) -> None:
    """What later commands read back."""
    layout.write_state(state)
    write_atomically(layout.home / "plan.json", plan.model_dump_json())


def write_compose(layout: Layout, plan: Plan) -> bool:
    """The Compose file of a plan whose images and secrets are what they were; True when its text is another."""
    state = layout.read_state()
    write_atomically(layout.home / "plan.json", plan.model_dump_json())
    facts = compose_facts(plan, layout.home, state.images, state.base_image)
    return write_atomically(layout.compose, render_compose(plan, facts))


def compose_facts(plan: Plan, home: Path, images: Mapping[str, str], base: str) -> ComposeFacts:
    project = project_name(plan.stack, home)
    texts = {one.name: launch_text(plan, one, project) + str(one.container.env) for one in plan.services}
    socket = socket_facts(engine_host()) if plan.sandbox else None
    return ComposeFacts(
        project=project,
        home=str(home),
        owner=owner(),
        base_image=base,
        images=dict(images),
        secrets={name: found for name, text in texts.items() if (found := named_in(text))},
        engine_socket=socket.path if socket else ENGINE_SOCKET,
        engine_group=socket.group if socket else None,
        static_digest=hashlib.sha256(_static(plan).encode()).hexdigest()[:12],
    )


def write_routes(layout: Layout, plan: Plan, discovery: Discovery) -> None:
    """Who is there: for servers (discovery) and for the router, each file replaced whole."""
    earlier = layout.read_discovery()
    generation = earlier.generation if earlier else 0
    if earlier is None or earlier.model_copy(update={"generation": 0}) != discovery.model_copy(
        update={"generation": 0}
    ):
        generation += 1
    current = discovery.model_copy(update={"generation": generation})
    write_atomically(layout.discovery, current.model_dump_json(), mode=SHARED)
    routes = traefik_dynamic(plan, current, console=CONSOLE_URL, entry_points=(OUTSIDE, INSIDE))
    write_atomically(layout.traefik / "dynamic" / "stack.yml", routes, mode=SHARED)
    (layout.traefik / "dynamic").chmod(0o755)


def forget_secrets(layout: Layout) -> None:
    shutil.rmtree(layout.secrets, ignore_errors=True)


def _static(plan: Plan) -> str:
    outside, inside = f":{OUTSIDE_PORT}", f":{labels.ROUTER_PORT}"
    return traefik_static(plan, directory="/etc/traefik/dynamic", outside=outside, inside=inside)


def _write_secrets(layout: Layout, values: Mapping[str, str]) -> None:
    layout.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.secrets.chmod(0o700)
    for path in layout.secrets.iterdir():
        if path.name not in values:
            path.unlink()
    for name, value in values.items():
        write_atomically(layout.secrets / name, value, mode=SHARED)


def _write_broker(layout: Layout, plan: Plan) -> dict[str, str]:
    """What the sandbox broker reads; the tokens of those who may ask it, as secrets."""
    if plan.sandbox is None:
        return {}
    tokens = keep_tokens(layout.home, plan.sandbox)
    write_config(layout.home, plan, tokens, mode=SHARED)
    state = prepare_state(layout.home)
    state.parent.chmod(0o755)
    state.chmod(0o777)  # the broker is another user, and only its owner can enter the home
    return {sandbox_secret(one): tokens.instances[one.name] for one in plan.services if one.sandbox}


def _json(document: Mapping[str, Any]) -> str:
    return orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2).decode()
