"""`gym up`: start servers behind one router and return when all are healthy."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import typer

from gym.cli import console
from gym.cli.live import live_status
from gym.cli.options import DEFAULT_STACK, ConfigFiles, Items, ModelName, Replicas, StackName, StartTimeout
from gym.cli.session import Session, choose_runtime, load_request, open_session, read_token
from gym.cli.summary import show_started
from gym.config import collect_secrets, load_stack
from gym.errors import UserError
from gym.labels import ENV_TOKEN, ROUTER_PORT
from gym.plan import Plan, RouterPlan, changes_to_text, diff, is_loopback, make_plan

Port = Annotated[
    int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The router's port; 0 lets the kernel choose.")
]
Bind = Annotated[str, typer.Option("--bind", metavar="HOST", help="Where the router listens; wider needs a token.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the bearer token that callers must send.")
]
Overrides = Annotated[
    list[Path] | None, typer.Option("-f", "--override", metavar="FILE", help="A Compose file, merged over ours.")
]
Attach = Annotated[bool, typer.Option("--attach", help="Follow the logs; Ctrl-C stops the stack.")]


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
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
    timeout: StartTimeout = 120,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Start servers by name, with whatever they need, and wait until all are healthy.

    Example: gym up simple_weather mcqa --model scripted
    """
    token = read_token(token_file)
    router = _router(bind, port, token)
    loaded = load_stack(load_request(items, model=model, files=files, replicas=replicas))
    name, why = choose_runtime(runtime)
    for line in (*loaded.notices, why):
        console.note(line)
    plan = make_plan(loaded, name=stack, router=router)
    session = open_session(stack, name, tuple(overrides or ()))
    _show_changes(session, plan)
    secrets = collect_secrets(loaded) | ({ENV_TOKEN: token} if token else {})
    with live_status(f"starting stack '{stack}'") as on_status:
        status = session.runtime.up(session.home, plan, secrets, on_status, timeout=timeout)
    show_started(status, plan)
    return _attach(session) if attach else 0


def _router(host: str, port: int, token: str) -> RouterPlan:
    _check_address(host)
    if not is_loopback(host) and not token:
        raise UserError(
            f"--bind {host} would let other machines call every server of the stack, and no token protects it.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return RouterPlan(host=host, port=port, needs_token=not is_loopback(host))


def _show_changes(session: Session, plan: Plan) -> None:
    """On a stack that runs, what this `up` will touch."""
    observed = session.runtime.observe(session.home)
    if observed.services:
        console.note(changes_to_text(diff(plan, observed)).rstrip(), style="")


def _check_address(host: str) -> None:
    try:
        ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise UserError(f"--bind {host}: not an address.", "Use 127.0.0.1, or 0.0.0.0 with a token.") from error


def _attach(session: Session) -> int:
    try:
        for line in session.runtime.logs(session.home, (), follow=True, tail=20):
            console.show_line(line.rstrip("\n"))
    finally:
        console.note("stopping")
        session.runtime.down(session.home)
    return 0
