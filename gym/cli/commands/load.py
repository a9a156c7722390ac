"""`gym load`: bring up a stack from a file of `gym save`. Nothing is built and nothing is fetched."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.live_status import live_status
from gym.cli.options import DEFAULT_STACK, StackName, StartTimeout
from gym.cli.stack_session import home_here, open_session
from gym.cli.summary import show_started
from gym.errors import UserError
from gym.labels import ROUTER_PORT, stack_option
from gym.plan import RouterPlan
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.archive import describe_saved, find_loosened, load_stack_file, read_saved
from gym.runtime.runtime_names import EngineChoice

Source = Annotated[Path, typer.Argument(metavar="FILE", help="What `gym save` wrote.")]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The router's port; 0: any.")]
Secrets = Annotated[Path | None, typer.Option("--secrets", metavar="DIR", help="A folder with one file a secret.")]
Trust = Annotated[bool, typer.Option("--trust", help="Load it although it loosens the isolation of its containers.")]
OnlyImages = Annotated[bool, typer.Option("--no-start", help="Load the images and start nothing.")]


def command(
    source: Source,
    port: Port = ROUTER_PORT,
    secrets: Secrets = None,
    no_start: OnlyImages = False,
    trust: Trust = False,
    timeout: StartTimeout = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Load a saved stack and start it.

    Example: gym load mcqa.tar --secrets ./secrets
    """
    home = home_here(stack)
    found = read_saved(source)  # before anything is left here
    open_session(stack, EngineChoice("compose"))
    for line in (f"{source} will run:", *(f"  {one}" for one in describe_saved(found))):
        console.note(line)
    if trust:
        for one in find_loosened(found):
            console.note(f"trusted: {one}", style="yellow")
    with console.busy(f"loading {source}"):
        manifest = load_stack_file(source, home, stack=stack, trust=trust)
    console.note(f"loaded {len(manifest.images)} servers as stack '{stack}'")
    if no_start:
        trusted = " --trust" if trust else ""
        console.note(
            f"Nothing was started: gym load {shlex.quote(str(source))}{trusted}{stack_option(stack)} starts it"
        )
        return 0
    values = _read_secrets(secrets, manifest.secrets)
    with live_status(f"starting stack '{stack}'") as on_status:
        router = RouterPlan(port=port)
        status = ComposeRuntime().start(home, values, on_status, timeout=timeout, router=router)
    show_started(status, manifest.plan, home)
    return 0


def _read_secrets(folder: Path | None, names: tuple[str, ...]) -> dict[str, str]:
    """Those that are there: `start` names every one that is missing."""
    if folder is None:
        return {}
    try:
        return {name: (folder / name).read_text("utf-8").strip() for name in names if (folder / name).is_file()}
    except OSError as error:
        raise UserError(
            f"{error.filename}: {error.strerror}.", "Give a folder of readable files: --secrets DIR"
        ) from None
