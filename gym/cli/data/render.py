"""`gym data render`: put a prompt template onto rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Files, Output
from gym.data.line_source import expand_inputs, read_some_lines
from gym.data.prompts import read_prompt, render_rows
from gym.data.whole_files import refuse_inputs, refuse_other_form, whole_file
from gym.wire.json_text import write_json

PromptFile = Annotated[Path, typer.Option("--prompt", metavar="FILE", help="YAML: user and, if wanted, system.")]
Replace = Annotated[bool, typer.Option("--replace", help="Also rows that have an input already.")]


def command(files: Files, prompt: PromptFile, output: Output, replace: Replace = False) -> int:
    """Put a prompt template onto rows: gym data render raw.jsonl --prompt prompt.yaml -o train.jsonl."""
    inputs = expand_inputs(files)
    template = read_prompt(prompt)
    refuse_other_form(output)
    refuse_inputs([output], inputs)
    for key in template.unused:
        console.note(f"{prompt}: {key} is not used: a prompt has user and system", style="yellow")
    number = 0
    with whole_file(output) as file:
        for row in render_rows(read_some_lines(inputs), template, replace=replace):
            file.write(write_json(row) + b"\n")
            number += 1
    console.show(f"{number:,} rows in {output}")
    return 0
