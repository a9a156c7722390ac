"""`gym view`: rollouts as a page to read, served to this machine or written as one file."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.sign_of_life import LIFE
from gym.collect.result_file import write_result
from gym.console.pages.shell import PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.viewer.embed import embed_rollouts
from gym.console.viewer.rollout_files import RolloutFiles
from gym.errors import UserError
from gym.server.config import Settings
from gym.server.refusing import Rules
from gym.server.serve import listen, run_app
from gym.wire.foreign_pages import is_loopback_host

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE.jsonl|FOLDER", help="Rollouts, or folders of them; failures beside them come along."),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="PAGE.html", help="Write one file that needs no server.")
]
Sample = Annotated[int | None, typer.Option("--sample", metavar="N", min=1, help="Only N, evenly taken (with -o).")]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: a free one.")]
OpenIt = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


Bind = Annotated[str, typer.Option("--bind", metavar="HOST", help="Where the pages are served; wider needs a token.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the token that browsers must send.")
]


def command(
    files: Files,
    output: Output = None,
    sample: Sample = None,
    port: Port = 0,
    open_it: OpenIt = False,
    bind: Bind = "127.0.0.1",
    token_file: TokenFile = None,
) -> int:
    """Read rollouts in a browser: gym view rollouts.jsonl."""
    if sample is not None and output is None:
        raise UserError("--sample is for a page of its own; a served one shows them all.", "Add -o page.html.")
    rollouts = RolloutFiles(files)
    rollouts.refresh(whole=output is not None)
    if output is not None:
        return _write_page(rollouts, output, sample, open_it)
    access = _access(bind, token_file)
    with _listen(bind, port) as listener:
        url = f"http://{bind}:{listener.getsockname()[1]}/"
        console.show_line(url)
        console.note("Ctrl-C stops it.")
        if open_it:
            webbrowser.open(url)
        settings = Settings(name="view", listen=f"fd:{listener.detach()}", drain_seconds=1)
        with LIFE.hidden():
            run_app(
                make_app(make_run_sections(rollouts.runs), access, _first(files)),
                settings,
                rules=Rules(pages=True, near=True),
            )
    return 0


def _first(files: list[Path]) -> str:
    """Who names one file wants to read it; who names a folder, to see what is there."""
    return "rollouts" if len(files) == 1 and not files[0].is_dir() else "runs"


def _access(bind: str, token_file: Path | None) -> PageAccess:
    token = read_token(token_file) if token_file is not None or not is_loopback_host(bind) else ""
    if not token and not is_loopback_host(bind):
        raise UserError(
            f"--bind {bind} serves the rollouts to more than this machine, and no token is set.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return PageAccess(token)


def _listen(bind: str, port: int) -> socket.socket:
    try:
        return listen(f"{bind}:{port}")
    except UserError as error:
        raise UserError(error.what, "Choose another --port, or leave it out.") from None


def _write_page(rollouts: RolloutFiles, output: Path, sample: int | None, open_it: bool) -> int:
    if any(output.resolve() == file.path.resolve() for file in rollouts.files):
        raise UserError(f"-o {output} is one of the files to be read.", "Give the page a name of its own: -o page.html")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_result(output, embed_rollouts(rollouts, sample))
    console.show_line(str(output))
    if open_it:
        webbrowser.open(output.resolve().as_uri())
    return 0
