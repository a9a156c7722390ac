"""What `gym chaos` makes of its options, how it asks, and what it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import orjson
import typer

from gym.chaos.chaos_report import ChaosReport, recovery_rows
from gym.chaos.chaos_setup import ChaosSetup, Happening, ModelProxy, check_fault_names
from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.rollout_inputs import find_rows
from gym.cli.stack_session import StackSession
from gym.errors import UserError
from gym.files import write_atomically


def make_setup(
    session: StackSession, rows: list[str], *, agent: str, folder: Path, faults: str, model_proxy: str, **others: Any
) -> ChaosSetup:
    inputs, named = find_rows(rows, [], agent)
    wanted = tuple(one.strip() for one in faults.split(",") if one.strip())
    check_fault_names(wanted)
    if any(folder.glob("*.jsonl")):
        raise UserError(f"{folder} holds rollouts already.", "Name another folder: -o FOLDER")
    return ChaosSetup(
        home=session.home,
        runtime=session.runtime,
        inputs=tuple(str(Path(one).absolute()) for one in inputs),
        agent=named,
        folder=folder.absolute(),
        faults=wanted,
        model=parse_proxy(model_proxy) if model_proxy else None,
        token=read_token(None),
        **others,
    )


def parse_proxy(text: str) -> ModelProxy:
    found = re.fullmatch(r"(\d{1,5})=(https?://\S+)", text)
    if not found or not 0 < int(found[1]) < 65536:
        raise UserError(
            f"--model-proxy {text}: expected PORT=URL, e.g. 9100=http://127.0.0.1:8000",
            "Start the stack with the proxy as its endpoint: gym up NAMES --model openai "
            "policy_base_url=http://127.0.0.1:9100/v1",
        )
    return ModelProxy(int(found[1]), found[2])


def confirm(setup: ChaosSetup, *, yes: bool) -> None:
    """It kills things: only of a stack whose name was typed for that."""
    if yes:
        return
    name = setup.home.name
    what = f"gym chaos kills, pauses and cuts off the processes of stack '{name}' ({setup.runtime.name}, {setup.home})."
    if not sys.stdin.isatty():
        raise UserError(f"{what} There is no terminal to ask on.", "Say it with --yes.")
    if typer.prompt(f"{what} Type its name to go on", err=True) != name:
        raise UserError("That is not its name; nothing was done.")


def tell_line(one: Happening) -> None:
    console.note(f"{one.seconds:7.1f} s  {one.text}")


def show_report(report: ChaosReport, folder: Path, *, as_json: bool) -> int:
    path = folder / "report.json"
    write_atomically(path, orjson.dumps(report.to_dict(), option=orjson.OPT_INDENT_2).decode())
    if as_json:
        console.show_raw(path.read_text("utf-8"))
    else:
        _show(report, path)
    return 1 if report.problems else 0


def _show(report: ChaosReport, path: Path) -> None:
    head = ("FAULT", "VICTIM", "TIMES", "OUT OF ROUTES, S", "SERVED, S", "WHOLE, S")
    console.show_table(head, recovery_rows(report.faults))
    found = report.verdict
    console.show(
        f"\n{len(report.faults)} faults in {console.format_duration(report.seconds)}, {report.rounds} collections, "
        f"{found.rollouts:,} rollouts compared, {found.second_tries:,} of them second tries: {found.lost} lost, "
        f"{found.doubled} doubled, {found.wrong} wrong, {len(report.orphans)} left behind"
    )
    for line in report.left_out:
        console.note(f"left out: {line}")
    for line in report.problems:
        console.note(line, style="red")
    console.show(f"report   {path}")
