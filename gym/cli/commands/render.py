"""`gym render`: what a runtime would be given, printed, or as a folder that plain Compose starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_args

import typer

from gym.cli import console
from gym.cli.live_status import live_status
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
    Strict,
)
from gym.cli.planning import plan_stack
from gym.cli.profile_files import compose_file, write_for_containers
from gym.cli.profiles import Profile
from gym.cli.relative_paths import relative
from gym.cli.rendering import ENGINE_TEXTS, Target, Texts, compose_texts, engine_texts, plan_text
from gym.cli.stack_request import load_named
from gym.cli.stack_session import StackSession, choose_runtime, find_home, home_here, make_runtime
from gym.config import collect_secrets
from gym.errors import InfraError, UserError
from gym.files import write_atomically
from gym.labels import ROUTER_PORT
from gym.plan import Plan, RouterPlan, changes_to_text
from gym.plan.shared_processes import tell_unshared
from gym.render.observability import with_trace_store
from gym.render.render_request import RenderRequest
from gym.runtime.compose import ComposeRuntime, find_engine


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    share: Share = None,
    replicas: Replicas = None,
    target: Annotated[Target, typer.Option(metavar="|".join(get_args(Target)), help="What to print.")] = "plan",
    differ: Annotated[bool, typer.Option("--diff", help="Print what `gym up` would change.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write a folder for `docker compose up`.")
    ] = None,
    registry: Registry = "",
    overrides: Overrides = None,
    port: Port = ROUTER_PORT,
    profile: Profile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Print the plan of a stack, or the files a runtime would be given, or how it differs from what runs.


    Example: gym render mcqa --model scripted -o deploy && cd deploy && docker compose up -d
    """
    over = tuple(overrides or ())
    if over and target not in ("plan", "compose"):
        raise UserError(f"-f names Compose files, and --target {target} has none.", "Leave -f or --target out.")
    loaded = load_named(items, model=model, files=files, replicas=replicas, strict=strict, share=share)
    for notice in loaded.notices:
        console.note(notice)
    loaded = with_trace_store(loaded) if profile else loaded
    plan, secrets = plan_stack(loaded, stack, RouterPlan(port=port)), collect_secrets(loaded)
    for notice in tell_unshared(plan, target) if target in ENGINE_TEXTS else ():
        console.note(notice)
    if target in ENGINE_TEXTS:
        return _write_for_engine(output, engine_texts(target, RenderRequest(plan, secrets, registry), home_here(stack)))
    if differ:
        home, runtime = _session(stack, over)
        console.show_raw(changes_to_text(runtime.changes(home, runtime.prepare(home, plan, secrets))))
        return 0
    if output is not None:
        _check_folder(output)
        if profile:
            write_for_containers(output, plan)
        return _write(output, plan, secrets, (compose_file(output), *over) if profile else over)
    if target == "plan":
        return _show_plan(plan, secrets, home_here(stack), over)
    console.show_raw(compose_texts(plan, target, secrets=secrets, home=home_here(stack), overrides=over))
    return 0


def _show_plan(plan: Plan, secrets: Mapping[str, str], home: Path, overrides: tuple[Path, ...]) -> int:
    """As `gym up` with the same words runs it here."""
    runtime, why = choose_runtime("compose" if overrides else None)
    prepared = make_runtime(runtime, overrides).prepare(home, plan, secrets)
    for line in (why, *prepared.notices):
        console.note(line)
    console.show_raw(plan_text(prepared.plan, home, overrides))
    return 0


def _session(stack: str, overrides: tuple[Path, ...]) -> StackSession:
    home, runtime = find_home(stack)
    return StackSession(home, make_runtime(runtime, overrides))


def _write_for_engine(folder: Path | None, texts: Texts) -> int:
    if folder is None:
        console.show_raw("".join(f"# {path}\n{text}" for path, text in texts.items()))
        return 0
    for path, text in texts.items():
        write_atomically(folder / path, text)
    console.show(f"{len(texts)} files in {relative(folder)}")
    return 0


def _check_folder(folder: Path) -> None:
    if folder.exists() and not (folder / "compose.yaml").is_file() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty, and holds no stack.", "Name a folder of its own: gym render … -o DIR")


def _write(folder: Path, plan: Plan, secrets: Mapping[str, str], overrides: tuple[Path, ...]) -> int:
    runtime = ComposeRuntime(overrides)
    prepared = runtime.prepare(folder, plan, secrets)
    if isinstance(engine := find_engine(), InfraError):
        console.note(f"No image was built: {engine.what} `gym build` with the same words builds them.", style="yellow")
    else:
        with live_status("building images") as on_status:
            runtime.build(folder, prepared, on_status)
    runtime.write(folder, prepared)
    console.show(f"cd {relative(folder)} && docker compose up -d")
    if prepared.secrets:
        console.note(
            f"{relative(folder / 'secrets')} holds {len(prepared.secrets)} secrets: keep it out of version control."
        )
    return 0
