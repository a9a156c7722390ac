"""The options that the commands which make data sets share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="JSONL, also .gz and .zst; a glob; - for stdin.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="What is written, whole or not at all.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same rows.")]
