"""`gym view`: rollouts as a page to read, served to this machine or written as one file."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.sign_of_life import LIFE
from gym.collect.result_file import write_result
from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.embed import embed_rollouts
from gym.console.viewer.rollout_files import RolloutFiles
from gym.errors import UserError
from gym.server.config import Settings
from gym.server.refusing import Rules
from gym.server.serve import listen, run_app

LARGE = 256 << 20

Files = Annotated[list[Path], typer.Argument(metavar="FILE.jsonl", help="Rollouts; failures beside them come along.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="PAGE.html", help="Write one file that needs no server.")
]
Sample = Annotated[int | None, typer.Option("--sample", metavar="N", min=1, help="Only N, evenly taken (with -o).")]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0: a free one.")]
OpenIt = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def command(files: Files, output: Output = None, sample: Sample = None, port: Port = 0, open_it: OpenIt = False) -> int:
    """Read rollouts in a browser: gym view rollouts.jsonl."""
    if sample is not None and output is None:
        raise UserError("--sample is for a page of its own; a served one shows them all.", "Add -o page.html.")
    rollouts = RolloutFiles(files)
    size = sum(file.path.stat().st_size for file in rollouts.files if file.path.is_file())
    if size > LARGE:
        console.note(f"Reading {size / 1e9:.1f} GB once, to index it.")
    rollouts.refresh()
    if output is not None:
        return _write_page(rollouts, output, sample, open_it)
    with _listen(port) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        console.show_line(url)
        console.note("Ctrl-C stops it.")
        if open_it:
            webbrowser.open(url)
        settings = Settings(name="view", listen=f"fd:{listener.detach()}", drain_seconds=1)
        with LIFE.hidden():
            run_app(make_app([make_section(rollouts)], PageAccess()), settings, rules=Rules(pages=True))
    return 0


def _listen(port: int) -> socket.socket:
    try:
        return listen(f"127.0.0.1:{port}")
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
