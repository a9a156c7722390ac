"""`gym audit NAME`: what a verifier pays for right, worthless and hostile answers, its speed, its memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.audit.check_names import checks_of, is_shown
from gym.cli.audit.subject import AuditFinding
from gym.cli.options import AsJson
from gym.cli.server_python import cached_python
from gym.cli.verifying import audit_server, words_of
from gym.config import CatalogEntry, find_server, search_roots
from gym.config.strict import declares_strict
from gym.errors import ProgramFailed, UserError

MODES = ("default", "strict")


def command(
    name: Annotated[str, typer.Argument(help="A resources server's name, as `gym list` shows it.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer verifies; the memory figure says little.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="CHECK", help="This check; repeatable.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="In strict mode alone; else in both.")] = False,
    as_json: AsJson = False,
) -> int:
    """Measure how good an environment's verifier is.

    Example: gym audit mcqa
    """
    checks = checks_of(only or ())
    entry = find_server(name, search_roots(Path.cwd(), os.environ))
    if entry.type != "resources_servers":
        raise UserError(f"{entry.name} has no verifier: only resources servers do.", "`gym list --type resources`")
    if strict and not declares_strict(entry.directory):
        console.note(f"{entry.name} has one mode: it is audited in that.")
        strict = False
    found = _audit(entry, quick=quick, only=checks, strict=strict)
    findings = [one for one in found if is_shown(one.check, only or ())]
    if as_json:
        console.show_json([asdict(one) for one in findings])
    else:
        console.show(console.make_table(("CHECK", "DEFAULT", "STRICT", "FOUND"), table_rows(findings)))
    return int(not all(one.passed for one in findings))


def _audit(entry: CatalogEntry, *, quick: bool, only: Sequence[str], strict: bool) -> tuple[AuditFinding, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        progress = Path(scratch) / "progress"
        with console.busy(lambda: f"auditing {entry.name}: {_read(progress) or 'its environment'}"):
            try:
                return audit_server(entry, cached_python, quick=quick, only=only, strict=strict, progress=progress)
            except ProgramFailed as error:
                raise UserError(
                    f"{entry.name} could not be audited: {words_of(error)}", f"gym test {entry.name}"
                ) from None


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


def table_rows(findings: Iterable[AuditFinding]) -> list[tuple[str | Text, ...]]:
    """One line a check: how it went in each mode, what the answers earned, and what was found where it went wrong."""
    found: dict[str, dict[str, AuditFinding]] = {}
    for one in findings:
        found.setdefault(one.check, {})[one.mode] = one
    return [(check, *(_verdict(modes.get(mode)) for mode in MODES), _detail(modes)) for check, modes in found.items()]


def _verdict(finding: AuditFinding | None) -> Text:
    if finding is None:
        return Text("")
    figures = finding.figures
    earned = f"{figures['paid']:.2g}" if "paid" in figures else ""
    if not finding.binding:
        wrong = f"{figures['wrong']:g} of {figures['tried']:g}" if "wrong" in figures else ""
        return Text(wrong or earned, style="yellow" if figures.get("wrong") or figures.get("paid") else "")
    word, style = ("passed", "green") if finding.passed else ("failed", "bold red")
    return Text(f"{word} {earned}".rstrip(), style=style)


def _detail(modes: Mapping[str, AuditFinding]) -> str:
    details = {mode: one.detail for mode, one in modes.items()}
    if len(set(details.values())) == 1:
        return next(iter(details.values()))
    return "\n".join(f"{mode}: {detail}" for mode, detail in details.items())
