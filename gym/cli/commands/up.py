"""`gym up`: start servers behind one router and return when all are healthy."""

from __future__ import annotations

import ipaddress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

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
    Registry,
    Replicas,
    Share,
    StackName,
    StartTimeout,
    Strict,
)
from gym.cli.profiles import Profile, ProfileOf, compose_file
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_request import load_named
from gym.cli.stack_session import StackSession, choose_engine, choose_runtime, home_here, open_session
from gym.cli.stack_starter import StackStarter
from gym.errors import UserError
from gym.labels import ROUTER_PORT
from gym.plan import RouterPlan, is_loopback
from gym.runtime.runtime_names import EngineChoice, RuntimeName
from gym.wire.sandbox import ProviderName

Bind = Annotated[str, typer.Option("--bind", metavar="HOST", help="Where the router listens; wider needs a token.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the bearer token that callers must send.")
]
OnEngine = Annotated[str, typer.Option("--on", metavar="ENGINE", help="An engine beyond this machine.")]
Attach = Annotated[bool, typer.Option("--attach", help="Follow the logs; Ctrl-C stops the stack.")]
SandboxProvider = Annotated[
    ProviderName | None,
    typer.Option(
        "--sandbox-provider", metavar="NAME", help="docker, bubblewrap or subprocess; default: the best here."
    ),
]


Locked = Annotated[bool, typer.Option("--locked", help="Build as the lock file says; refuse what differs from it.")]
LockFile = Annotated[Path, typer.Option("--lock-file", metavar="FILE", help="What `gym lock` wrote.")]
WatchFlag = Annotated[bool, typer.Option("--watch", help="Reload a server when its files change, and show its log.")]


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    share: Share = None,
    overrides: Overrides = None,
    runtime: Annotated[
        Literal["compose", "local"] | None,
        typer.Option(metavar="compose|local", help="Default: compose when an engine answers."),
    ] = None,
    on: OnEngine = "",
    registry: Registry = "",
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
    load = partial(load_named, words, model=model, files=files, replicas=replicas, strict=strict, share=share)
    loaded = load()
    choice, why = _choose(runtime, on, registry)
    for line in (*loaded.notices, why):
        console.note(line)
    files_over = tuple(overrides or ())
    if profile and choice.runtime == "compose":
        files_over = (compose_file(home_here(stack)), *files_over)
    session = open_session(stack, choice, files_over, lock_file if locked else None, live=watch)
    named = (*(files or ()), *(overrides or ()))
    starter = StackStarter(
        session, stack, router, token, timeout, named, ProfileOf(choice.runtime) if profile else None
    )
    started = starter.start(loaded, watch=watch)
    if watch:
        from gym.cli.watching import watch as watch_stack  # noqa: PLC0415  (for those who ask)

        return watch_stack(starter, load, started)
    return _attach(session) if attach else 0


def _choose(runtime: RuntimeName | None, on: str, registry: str) -> tuple[EngineChoice, str]:
    if on and runtime:
        raise UserError(f"--on {on} and --runtime {runtime} name two places.", "Leave one of them out.")
    if on:
        return choose_engine(on)._replace(registry=registry.rstrip("/")), f"engine: {on}"
    if registry:
        raise UserError(f"--registry {registry} is for an engine beyond this machine.", "Name it: --on swarm")
    name, why = choose_runtime(runtime)
    return EngineChoice(name), why


def _router(host: str, port: int, token: str) -> RouterPlan:
    _check_address(host)
    if not is_loopback(host) and not token:
        raise UserError(
            f"--bind {host} would let other machines call every server of the stack, and no token protects it.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return RouterPlan(host=host, port=port, needs_token=not is_loopback(host))


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
