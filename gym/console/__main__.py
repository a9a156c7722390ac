"""`python -m gym.console`: serves the console until SIGTERM."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # see gym.server.serve

import logging
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gym import labels
from gym.console.app import Deps, make_app
from gym.console.console_settings import ConsoleSettings, read_settings
from gym.console.discovery_sources import LiveSources
from gym.console.probes import Prober
from gym.console.stack.log_receiver import LogReceiver
from gym.console.stack.stack_view import StackParts
from gym.console.upstream_addresses import UpstreamAdmin
from gym.errors import GymError
from gym.http.pool import HttpClient
from gym.server import serve
from gym.server.config import Settings as ServeSettings
from gym.server.line_copies import copy_output
from gym.server.refusing import Rules
from gym.wire.stack_names import ROUTER

if TYPE_CHECKING:
    from gym.console.pages.shell import Section
    from gym.console.reconcile import Reconciler


def main() -> int:
    gc.enable()
    if where := os.environ.get(labels.ENV_LOG_COPIES):
        copy_output(where)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings(os.environ)
        serve_settings = ServeSettings(name="console", listen=settings.listen, drain_seconds=settings.drain_seconds)
        serve.run_app(make_app(make_deps(settings)), serve_settings, rules=Rules(pages=True, near=True))
    except GymError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def make_deps(settings: ConsoleSettings) -> Deps:
    client = HttpClient()
    sources = LiveSources(settings.discovery, settings.config, client)
    prober = Prober(client)
    admin = UpstreamAdmin(sources, prober, settings.upstreams, contained=settings.wanted is not None)
    parts = StackParts(
        router=f"http://{ROUTER}:{labels.ROUTER_PORT}" if settings.wanted is not None else "",
        token=settings.token,
        notes=settings.notes,
        logs=settings.logs,
        contained=settings.wanted is not None,
    )
    receiver = LogReceiver(settings.logs) if settings.logs and settings.wanted is not None else None
    reconciler = make_reconciler(settings, receiver)
    deps = Deps(sources, prober, settings.token, admin=admin, parts=parts, client=client)
    deps = replace(deps, reconciler=reconciler, receiver=receiver)
    return replace(deps, sections=partial(_make_sections, settings, deps, client))


def _make_sections(settings: ConsoleSettings, deps: Deps, client: HttpClient) -> tuple[Section, ...]:
    from gym.console.environments.environments_section import StackToTry, make_section  # noqa: PLC0415 (see LatePages)
    from gym.console.environments.person_session import PersonSessions  # noqa: PLC0415 (as above)
    from gym.console.run_sections import find_environments, make_run_sections  # noqa: PLC0415 (as above)
    from gym.console.viewer.run_files import RunFiles  # noqa: PLC0415 (as above)
    from gym.server.replicas import Peers  # noqa: PLC0415 (as above)

    runs = RunFiles([settings.results], later=True) if settings.results else None
    to_try = StackToTry(deps.sources, PersonSessions(Peers(settings.discovery, {}, client), client))
    environments = make_section(find_environments(settings.catalog), to_try)
    return make_run_sections(runs, deps.board.running, environments)


def make_reconciler(settings: ConsoleSettings, receiver: LogReceiver | None = None) -> Reconciler | None:
    """Only where the runtime gave us the files to write; elsewhere another process writes the routes."""
    if settings.wanted is None or settings.routes is None:
        return None
    from gym.console.reconcile import Reconciler  # noqa: PLC0415 (with the whole plan, and on Compose alone)

    on_places = receiver.name_senders if receiver else None
    return Reconciler(settings.wanted, Path(settings.discovery), settings.routes, on_places=on_places)


if __name__ == "__main__":
    raise SystemExit(main())
