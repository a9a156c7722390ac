"""`gym up`: start servers behind one router and return when all are healthy."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

import typer

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.options import (
    DEFAULT_STACK,
    ConfigFiles,
    Items,
    ModelName,
    Overrides,
    Port,
    Replicas,
    StackName,
    StartTimeout,
    Strict,
)
from gym.cli.planning import plan_stack
from gym.cli.profiles import Profile, compose_file, show_addresses, write_for_containers, write_for_programs
from gym.cli.replica_table import live_status
from gym.cli.sandbox.build_progress import show_builds
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_request import load_named
from gym.cli.stack_session import StackSession, choose_runtime, home_here, open_session
from gym.cli.summary import show_started
from gym.config import StackConfig, collect_secrets
from gym.errors import GymError, NotUp, UserError
from gym.labels import ENV_TOKEN, ROUTER_PORT
from gym.plan import Change, Plan, RouterPlan, changes_to_text, is_loopback
from gym.render.observability import with_trace_store
from gym.runtime.file_watch import Stamps, take_stamps, wait_for_change, watched_folders
from gym.wire.sandbox import ProviderName

Bind = Annotated[str, typer.Option("--bind", metavar="HOST", help="Where the router listens; wider needs a token.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the bearer token that callers must send.")
]
Attach = Annotated[bool, typer.Option("--attach", help="Follow the logs; Ctrl-C stops the stack.")]
SandboxProvider = Annotated[
    ProviderName | None,
    typer.Option(
        "--sandbox-provider", metavar="NAME", help="docker, bubblewrap or subprocess; default: the best here."
    ),
]


Locked = Annotated[bool, typer.Option("--locked", help="Build as the lock file says; refuse what differs from it.")]
LockFile = Annotated[Path, typer.Option("--lock-file", metavar="FILE", help="What `gym lock` wrote.")]
WatchFlag = Annotated[bool, typer.Option("--watch", help="Rebuild and replace a server when its files change.")]


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    overrides: Overrides = None,
    runtime: Annotated[
        Literal["compose", "local"] | None,
        typer.Option(metavar="compose|local", help="Default: compose when an engine answers."),
    ] = None,
    replicas: Replicas = None,
    port: Port = ROUTER_PORT,
    bind: Bind = "127.0.0.1",
    token_file: TokenFile = None,
    attach: Attach = False,
    watch: WatchFlag = False,
    locked: Locked = False,
    lock_file: LockFile = Path("gym.lock"),
    timeout: StartTimeout = None,
    sandbox_provider: SandboxProvider = None,
    profile: Profile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Start servers by name, with whatever they need, and wait until all are healthy.

    Example: gym up simple_weather mcqa --model scripted
    """
    router = _router(bind, port, token := read_token(token_file))
    words = [*(items or []), *([f"sandbox_provider={sandbox_provider}"] if sandbox_provider else [])]
    load = partial(load_named, words, model=model, files=files, replicas=replicas, strict=strict)
    loaded = load()
    name, why = choose_runtime(runtime)
    for line in (*loaded.notices, why):
        console.note(line)
    files_over = tuple(overrides or ())
    if profile and name == "compose":
        files_over = (compose_file(home_here(stack)), *files_over)
    session = open_session(stack, name, files_over, lock_file if locked else None)
    starter = StackStarter(session, stack, router, token, timeout, watch, ProfileOf(name) if profile else None)
    started = starter.start(loaded)
    if watch:
        return _watch(started, lambda: starter.start(load()))
    return _attach(session) if attach else 0


class Started(NamedTuple):
    plan: Plan
    stamps: Stamps  # of the servers' files, taken before they were started


class ProfileOf(NamedTuple):
    """The profile on a runtime: in a stack of containers services of it, beside a local one files for programs."""

    runtime: str

    def settle(self, loaded: StackConfig) -> StackConfig:
        return with_trace_store(loaded) if self.runtime == "compose" else loaded

    def begin(self, home: Path, plan: Plan) -> None:
        if self.runtime == "compose":
            write_for_containers(home, plan)

    def end(self, home: Path, plan: Plan, router: str) -> None:
        if self.runtime == "compose":
            show_addresses()
        else:
            write_for_programs(home, plan, urlsplit(router).netloc)


class StackStarter(NamedTuple):
    session: StackSession
    stack: str
    router: RouterPlan
    token: str
    timeout: float | None
    watch: bool
    profile: ProfileOf | None = None

    def start(self, loaded: StackConfig) -> Started:
        """Also where some servers are not healthy, if their files are watched: a change may be what they need."""
        home, runtime = self.session
        plan = plan_stack(self.profile.settle(loaded) if self.profile else loaded, self.stack, self.router)
        if self.profile:
            self.profile.begin(home, plan)
        stamps = take_stamps(watched_folders(plan))
        secrets = collect_secrets(loaded) | ({ENV_TOKEN: self.token} if self.token else {})
        prepared = runtime.prepare(home, plan, secrets)
        for line in prepared.notices:
            console.note(line)
        _show_changes(runtime.changes(home, prepared))
        try:
            with live_status(f"starting stack '{self.stack}'") as on_status:
                status = runtime.up(home, prepared, on_status, timeout=self.timeout)
            if plan.sandbox is not None:
                show_builds(self.session)
            show_started(status, prepared.plan)
            if self.profile:
                self.profile.end(home, plan, status.router)
        except NotUp as error:
            if not self.watch:
                raise
            console.show_error(error)
        return Started(plan, stamps)


def _watch(started: Started, start: Callable[[], Started]) -> int:
    """Until Ctrl-C, which leaves the stack up. An error is shown, and the next change tried."""
    while True:
        console.note("watching the servers' files; Ctrl-C ends the watch and leaves the stack up (gym down stops it)")
        folders = watched_folders(started.plan)
        with LIFE.hidden():
            changed = wait_for_change(folders, since=started.stamps)
        console.note(f"changed: {', '.join(changed)}")
        started = Started(started.plan, take_stamps(folders))
        try:
            started = start()
        except GymError as error:
            console.show_error(error)


def _router(host: str, port: int, token: str) -> RouterPlan:
    _check_address(host)
    if not is_loopback(host) and not token:
        raise UserError(
            f"--bind {host} would let other machines call every server of the stack, and no token protects it.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return RouterPlan(host=host, port=port, needs_token=not is_loopback(host))


def _show_changes(changes: tuple[Change, ...]) -> None:
    """Of a stack that runs; on a new one every service would be listed."""
    if any(one.action != "create" for one in changes):
        console.note(changes_to_text(changes).rstrip(), style="")


def _check_address(host: str) -> None:
    try:
        ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise UserError(f"--bind {host}: not an address.", "Use 127.0.0.1, or 0.0.0.0 with a token.") from error


def _attach(session: StackSession) -> int:
    try:
        with LIFE.hidden():
            for line in session.runtime.logs(session.home, (), follow=True, tail=20):
                console.show_line(line.rstrip("\n"))
    finally:
        console.note("stopping")
        session.runtime.down(session.home)
    return 0
