"""Runs a server's verifier cases, or audits it, in the server's own environment; the findings come back as data."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gym.cli.audit.subject import AuditFinding
from gym.cli.trial_services import fields_with_services, trial_services
from gym.config import CatalogEntry, own_fields
from gym.config.example_rows import example_of
from gym.config.strict import declares_strict
from gym.data.row_servers import FindPython, known_fields
from gym.errors import ProgramFailed
from gym.programs import run_program
from gym.runtime.trial_broker import trial_broker
from gym.server.case_log import NO_ANSWER, ROW_PROBLEMS, STACKS, CaseOutcome
from gym.server.cases import CASES
from gym.venvs import bytecode_elsewhere

SECONDS = 3600.0  # all cases, or an audit, on however busy a machine; what hangs is found by its case
LAST_LINES = 8


def run_verifier_cases(
    entry: CatalogEntry,
    find_python: FindPython,
    *,
    strict: bool = False,
    report_row: Callable[[str], object] | None = None,
) -> tuple[CaseOutcome, ...]:
    """Every case of the server's file, in its order; none where it has no file.

    `report_row` gets what is wrong with the example rows, which the server's code alone can say.
    `strict`: what a perfect policy answers, in strict mode. The other cases say themselves in which mode they hold.
    """
    if not (entry.directory / CASES).is_file() or (strict and not declares_strict(entry.directory)):
        return ()
    more = {"strict": strict, "examples": str(example_of(entry.directory).absolute())}
    found = _run("gym.server.cases", entry, find_python, more, say_how_it_ended, report_row)
    return tuple(CaseOutcome(**one) for one in found)


def audit_server(
    entry: CatalogEntry,
    find_python: FindPython,
    *,
    quick: bool,
    only: Sequence[str] = (),
    strict: bool = False,
    progress: Path | None = None,
) -> tuple[AuditFinding, ...]:
    """`progress` is a file whose text says, while the audit works, which check it has come to."""
    options = {"quick": quick, "only": list(only), "strict": strict, "progress": str(progress or "")}
    return tuple(AuditFinding(**one) for one in _run("gym.cli.audit.process", entry, find_python, options))


def case_fields(entry: CatalogEntry) -> dict[str, Any]:
    """The server's own settings without those that only a whole stack can fill; a case's `config` may give them."""
    return known_fields(own_fields(entry))


def words_of(error: ProgramFailed) -> str:
    """The end of what a program said, its error or a traceback's last lines; else how it ended."""
    said = "\n".join(error.output.strip().splitlines()[-LAST_LINES:])
    how = f"its process {_ending(error.code)}"
    if not said:
        return f"{how} and wrote nothing"
    return said if error.code == 1 else f"{how}:\n{said}"


Ended = Callable[[ProgramFailed, Path, Path], list[dict[str, Any]]]


def _run(
    module: str,
    entry: CatalogEntry,
    find_python: FindPython,
    more: Mapping[str, Any],
    ended: Ended | None = None,
    report_row: Callable[[str], object] | None = None,
) -> list[dict[str, Any]]:
    """`ended`: what its file is worth where the process ended badly."""
    grant = own_fields(entry).get("sandbox")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as trial:
        out = Path(scratch) / "out.jsonl"
        argv = (str(find_python(entry)), "-m", module, str(entry.directory), str(out))
        access = trial.enter_context(trial_broker(grant)).environ if isinstance(grant, dict) else {}
        addresses = trial.enter_context(trial_services(entry, os.environ))
        fields = {**case_fields(entry), **fields_with_services(entry, addresses)}
        spec = {"name": entry.name, "fields": fields, **more}
        env = {**os.environ, **access, **bytecode_elsewhere(os.environ)}
        try:
            run_program(argv, cwd=entry.directory, env=env, input=json.dumps(spec), timeout=SECONDS)
        except ProgramFailed as error:
            if ended is None:
                raise
            return ended(error, out, entry.directory)
        finally:
            if report_row is not None and (rows := out.with_suffix(ROW_PROBLEMS)).is_file():
                for one in json.loads(rows.read_bytes()):
                    report_row(one)
        return _read(out)


def say_how_it_ended(error: ProgramFailed, out: Path, folder: Path) -> list[dict[str, Any]]:
    """The outcomes so far, where a case was being run. `folder` is the server's, where it ran."""
    outcomes = _read(out) if out.is_file() else []
    running = next((one for one in outcomes if one["got"] == NO_ANSWER), None)
    if running is None:
        raise error
    where = _where_it_hung(out.with_suffix(STACKS), folder)
    how = f"nothing else could run meanwhile; it was at {where}" if where else words_of(error)
    running["reason"] = f"{running['reason']}: {how}"
    return outcomes


def _where_it_hung(stacks: Path, folder: Path) -> str:
    """`app.py:12`: the innermost line of the server's own; "" where no watchdog wrote."""
    if not stacks.is_file() or not (written := stacks.read_text("utf-8", "replace")):
        return ""
    found = re.search(rf'File "{re.escape(str(folder.resolve()))}/([^"]+)", line (\d+)', written)
    return f"{found[1]}:{found[2]}" if found else "code that is not the server's own"


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_bytes().splitlines()]
