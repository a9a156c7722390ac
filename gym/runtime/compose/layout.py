"""The files of a Compose stack below its home, written before it starts. Values of secrets are only in secrets/."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from gym import labels
from gym.engine import engine_host, socket_facts
from gym.errors import UserError
from gym.files import SHARED, read_document, write_atomically
from gym.plan.model import Plan, Value
from gym.render.compose import ENGINE_SOCKET, OUTSIDE_PORT, ROUTER_IMAGE, ComposeFacts, render_compose
from gym.render.compose_settings import launch_text, settings_files
from gym.render.compose_shared import shared_files
from gym.render.console_document import console_document
from gym.render.override_file import adapt_override
from gym.render.routes import next_discovery, router_text
from gym.render.server_variables import sandbox_secret
from gym.render.traefik import traefik_static
from gym.render.unused_certificate import FILE as UNUSED_CERTIFICATE
from gym.render.unused_certificate import unused_certificate
from gym.render.wanted_stack import discovery_of, wanted_of
from gym.runtime.compose.router_probe import router_url
from gym.runtime.compose.secrets import secret_names
from gym.runtime.compose.stack_folder import StackFolder
from gym.runtime.protocol import Prepared
from gym.runtime.results_folder import results_folder
from gym.runtime.sandbox_access import keep_tokens, prepare_state, write_config
from gym.runtime.upstream_folders import prepare_upstreams
from gym.runtime.user_state import owner
from gym.wire.discovery import Discovery
from gym.wire.route_files import read_discovery, write_routes
from gym.wire.stack_names import project_name
from gym.wire.wanted import Wanted, write_wanted

# Read by other users inside containers, and by no others: the home is 0700 and holds no secret elsewhere.
WRITABLE: Final = 0o777  # for the console and the broker, who are other users; no one else can enter the home


class State(Value):
    """What later commands have to know, in one file: a command that is cut off leaves all of it old, or all new."""

    project: str
    plan: Plan | None = None
    overrides: tuple[str, ...] = ()
    override_texts: tuple[str, ...] = ()  # as they were when the stack was started with them
    images: dict[str, str] = {}
    base_image: str = ""
    router_image: str = ROUTER_IMAGE
    synced: tuple[str, ...] = ()  # instances that read their sources from copies, while they are watched
    results: str = ""  # what GYM_RESULTS named when the stack was started

    def of_plan(self, plan: Plan | None) -> State:
        return self.model_copy(update={"plan": plan})


class Layout(StackFolder):
    """What is saved there, checked."""

    def project_of(self, plan: Plan) -> str:
        return project_name(plan.stack, self.home)

    def read_plan(self) -> Plan | None:
        return self.read_state().plan or read_document(Plan, self.older_plan)

    def read_state(self) -> State:
        return read_document(State, self.state) or State(project=project_name(self.home.name, self.home))

    def write_state(self, state: State) -> None:
        write_atomically(self.state, state.model_dump_json())

    def read_discovery(self) -> Discovery | None:
        return read_discovery(self.discovery)

    def healthy_urls(self) -> frozenset[str]:
        """Those that the router sends requests to: a replica listed as unhealthy gets none."""
        found = self.read_discovery()
        listed = [one for view in found.instances.values() for one in view.replicas] if found else []
        return frozenset(one.url for one in listed if one.healthy)


def write_stack(layout: Layout, plan: Plan, values: Mapping[str, str], state: State) -> bool:
    """Everything that containers mount and Compose reads; True when the Compose file is another than before.

    Secrets that only the earlier stack had stay until `forget_other_secrets`: its containers may start once more.
    """
    write_secrets(layout, {**values, **_write_broker(layout, plan)})
    write_parts(layout, plan, state)
    write_saved(layout, plan, state)
    return write_compose(layout, plan)


def write_parts(layout: Layout, plan: Plan, state: State) -> None:
    """What the router and the console mount."""
    write_atomically(layout.traefik / "static.yml", static_text(plan), mode=SHARED)
    write_atomically(layout.home / "discovery" / "console.json", _json(console_document(plan)), mode=SHARED)
    prepare_folders(layout, state)
    write_atomically(layout.routes.parent / UNUSED_CERTIFICATE, unused_certificate(), mode=SHARED)


def prepare_folders(layout: Layout, state: State) -> None:
    """What is mounted is there before, or the engine would make it, as root's."""
    modes = {layout.traefik: 0o755, layout.wanted: 0o755, layout.discovery.parent: WRITABLE, layout.notes: WRITABLE}
    modes |= {layout.logs: WRITABLE, layout.catalog: 0o755}
    for folder, mode in {**modes, layout.routes.parent: WRITABLE}.items():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
    results = results_folder(state.results, layout.home)
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder of results {results} cannot be made: {error.strerror}.",
            f"Name another one: {labels.ENV_RESULTS}=FOLDER gym up ...",
        ) from error


def write_saved(layout: Layout, plan: Plan, state: State) -> None:
    """What later commands read back."""
    layout.write_state(state.of_plan(plan))


def write_compose(layout: Layout, plan: Plan) -> bool:
    """The Compose file of a plan whose images and secrets are what they were; True when its text is another.

    Last comes what is wanted: until it is there, the stack is served as it was.
    """
    state = layout.read_state()
    text = compose_text(layout.home, plan, state)
    write_saved(layout, plan, state)
    prepare_upstreams(layout.home, plan, mode=WRITABLE)
    for name, settings in (settings_files(plan, state.project) | shared_files(plan)).items():
        write_atomically(layout.home / name, settings, mode=SHARED)
    changed = write_atomically(layout.compose, text)
    write_wanted(layout.wanted, wanted_in(layout, plan))
    return changed


def state_of(home: Path, prepared: Prepared, overrides: tuple[str, ...] = ()) -> State:
    """Of a stack whose images are, or will be, built."""
    assert prepared.images is not None, "a stack of containers runs from images"
    return State(
        project=project_name(prepared.plan.stack, home),
        overrides=overrides,
        override_texts=override_texts(overrides),
        images=dict(prepared.images.by_instance),
        base_image=prepared.images.base,
        synced=prepared.live,
        results=os.environ.get(labels.ENV_RESULTS, ""),
    )


def compose_text(home: Path, plan: Plan, state: State) -> str:
    """The Compose file: `gym render` prints it, `gym up` and `gym scale` write it."""
    return render_compose(plan, compose_facts(home, plan, state))


def _from_here(path: Path, home: Path) -> str:
    """As Compose tells a folder from a volume's name: by a dot or a slash at its beginning."""
    found = os.path.relpath(path, home)
    return found if found.startswith(os.pardir) else f"./{found}"


def compose_facts(home: Path, plan: Plan, state: State) -> ComposeFacts:
    project = project_name(plan.stack, home)
    texts = {one.name: launch_text(plan, one, project) + str(one.container.env) for one in plan.services}
    socket = socket_facts(engine_host()) if plan.sandbox else None
    results = results_folder(state.results, home)
    return ComposeFacts(
        project=project,
        results=_from_here(results, home),
        results_writable=_is_open(results),
        home=str(home),
        owner=owner(),
        base_image=state.base_image,
        images=state.images,
        router_image=state.router_image,
        synced=state.synced,
        secrets={name: found for name, text in texts.items() if (found := secret_names(text))},
        engine_socket=socket.path if socket else ENGINE_SOCKET,
        engine_group=socket.group if socket else None,
        static_digest=hashlib.sha256(static_text(plan).encode()).hexdigest()[:12],
    )


def _is_open(folder: Path) -> bool:
    """To the console's user, who has no account on this machine."""
    return folder.is_dir() and bool(folder.stat().st_mode & 0o002)


def override_files(layout: Layout, state: State) -> list[str]:
    """The user's Compose files as Compose is to read them: each his own, or a copy in which names were filled in.

    Relative paths mean the same in both: they begin at the stack's own folder.
    """
    plan = layout.read_plan()
    return [_adapted(layout, plan, state.project, number, path) for number, path in enumerate(state.overrides, 1)]


def override_texts(paths: Iterable[str]) -> tuple[str, ...]:
    """Of a file that cannot be read, none: Compose says it best."""
    return tuple(_read_override(path) or "" for path in paths)


def read_overrides(paths: Iterable[str | Path]) -> list[str]:
    """Where one that cannot be read is not left to Compose."""
    return [_read_named(Path(path)) for path in paths]


def _read_named(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"-f {path} cannot be read: {error}", "Name a Compose file.") from None


def write_compose_files(layout: Layout) -> None:
    """The user's files beside ours, and Compose is given them all: it reads `.env` where it is started."""
    plan, state = layout.read_plan(), layout.read_state()
    names = [layout.compose.name]
    for number, text in enumerate(read_overrides(state.overrides), 1):
        names.append(f"override-{number}.yaml")
        write_atomically(layout.home / names[-1], (adapt_override(text, plan, state.project) if plan else None) or text)
    write_atomically(layout.home / ".env", f"COMPOSE_PATH_SEPARATOR=:\nCOMPOSE_FILE={':'.join(names)}\n")


def _adapted(layout: Layout, plan: Plan | None, project: str, number: int, path: str) -> str:
    found = _read_override(path)
    text = adapt_override(found, plan, project) if plan and found is not None else None
    if text is None:
        return path
    copy = layout.home / "adapted" / f"{number}-{Path(path).name}"
    write_atomically(copy, text)
    return str(copy)


def _read_override(path: str) -> str | None:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def restore(layout: Layout, earlier: State) -> None:
    """What Compose refused is not what the stack and later commands should go on with."""
    layout.write_state(earlier)
    if earlier.plan:
        write_compose(layout, earlier.plan)


def wanted_in(layout: Layout, plan: Plan) -> Wanted:
    return wanted_of(plan, project_name(plan.stack, layout.home), router_url(plan))


def write_first_routes(layout: Layout, plan: Plan) -> None:
    """Of a stack that has no container yet: every instance answers that it starts. Later ones are the console's."""
    wanted = wanted_in(layout, plan)
    found = next_discovery(discovery_of(wanted, {}), layout.read_discovery())
    write_routes(layout.discovery, layout.routes, found, router_text(wanted, found))


def forget_other_secrets(layout: Layout, plan: Plan, values: Mapping[str, str]) -> None:
    """Those that this stack, which is up, does not ask for."""
    kept = {*values, *(sandbox_secret(one) for one in plan.services if one.sandbox)}
    for path in layout.secrets.iterdir():
        if path.name not in kept:
            path.unlink()


def forget_secrets(layout: Layout) -> None:
    shutil.rmtree(layout.secrets, ignore_errors=True)


def static_text(plan: Plan) -> str:
    """What the router reads once, at its start."""
    outside, inside = f":{OUTSIDE_PORT}", f":{labels.ROUTER_PORT}"
    return traefik_static(plan, directory="/etc/traefik/dynamic", outside=outside, inside=inside)


def write_secrets(layout: Layout, values: Mapping[str, str]) -> None:
    layout.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.secrets.chmod(0o700)
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
    state.chmod(WRITABLE)
    return {sandbox_secret(one): tokens.instances[one.name] for one in plan.services if one.sandbox}


def _json(document: Mapping[str, Any]) -> str:
    return orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2).decode()
