"""`gym ask`: one question, or one row, to an agent of a running stack; the conversation as it went."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.options import DEFAULT_STACK, AsJson, StackName, TokenFile, Url
from gym.cli.stack_session import router_of
from gym.client import Stack, conversation
from gym.data.line_source import read_lines
from gym.data.row_parsing import BadLine, parse_object
from gym.errors import ConfigError, UserError
from gym.wire.json_text import replace_surrogates_in_text

Agent = Annotated[str, typer.Argument(metavar="AGENT", help="An agent of the stack: gym ps shows them.")]
Question = Annotated[str, typer.Argument(metavar="QUESTION", help="What a user would say.")]
RowAt = Annotated[
    str, typer.Option("--row", metavar="FILE[:LINE]", help="A row of a JSONL file instead: it is verified too.")
]
NoTools = Annotated[bool, typer.Option("--no-tools", help="Offer the model no tools of the environment.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="For the answer.")]


def command(
    agent: Agent,
    question: Question = "",
    row: RowAt = "",
    no_tools: NoTools = False,
    timeout: Timeout = 3600,
    as_json: AsJson = False,
    url: Url = "",
    token_file: TokenFile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Ask one thing: gym ask simple_weather_simple_agent "What is the weather in Paris?"."""
    if bool(question) == bool(row):
        raise UserError("Ask one question, or one row.", 'gym ask AGENT "..." or gym ask AGENT --row rows.jsonl:3')
    asked = read_row(row) if row else {}
    with Stack.connect(url or router_of(stack), token=read_token(token_file, os.environ), timeout=timeout) as found:
        if row:
            answer = found.run({**asked, "agent_ref": {"type": "responses_api_agents", "name": agent}})
        else:
            answer = found.ask(agent, replace_surrogates_in_text(question), **({"tools": []} if no_tools else {}))
    if as_json:
        console.show_json(answer)
        return 0
    for line in lines_of(answer):
        console.show_line(line)
    return 0


def read_row(where: str) -> dict[str, Any]:
    """`rows.jsonl` is its first line, `rows.jsonl:3` its third; read as `gym rollouts` reads it."""
    found = re.fullmatch(r"(.+?)(?::(\d+))?", where)
    file, number = (found[1], int(found[2] or 1)) if found else (where, 1)
    if not Path(file).is_file():
        raise UserError(f"{file} cannot be read: there is no such file", "--row FILE.jsonl:LINE; lines count from 1")
    line = next((line for line in read_lines([file]) if line.number == number), None)
    if line is None:
        raise UserError(f"{file} has no line {number} with a row", "Lines count from 1.")
    try:
        return parse_object(line)
    except BadLine as bad:
        raise ConfigError([bad.problem]) from None


def lines_of(answer: dict[str, Any]) -> Iterator[str]:
    """The conversation, then the verdict where there is one."""
    yield from conversation(answer.get("response") or answer)
    if "reward" in answer:
        reason = f"  ({answer['reason']})" if answer.get("reason") else ""
        yield f"reward {answer['reward']:g}{reason}"
