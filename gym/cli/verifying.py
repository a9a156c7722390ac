"""Runs a server's verifier cases, or audits it, in the server's own environment; the findings come back as data."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gym.cli.audit.subject import AuditFinding
from gym.cli.trial_services import fields_with_services, trial_services
from gym.config import CatalogEntry, own_fields
from gym.config.strict import declares_strict
from gym.data.row_servers import known_fields
from gym.programs import run_program
from gym.runtime.trial_broker import trial_broker
from gym.server.cases import CASES, CaseOutcome
from gym.venvs import bytecode_elsewhere

SECONDS = 3600.0  # only what hangs takes so long, on however busy a machine
FindPython = Callable[[CatalogEntry], Path]


def run_verifier_cases(
    entry: CatalogEntry, find_python: FindPython, *, strict: bool = False
) -> tuple[CaseOutcome, ...]:
    """Every case of the server's file, in its order; none where it has no file.

    `strict`: what a perfect policy answers, in strict mode. The other cases say themselves in which mode they hold.
    """
    if not (entry.directory / CASES).is_file() or (strict and not declares_strict(entry.directory)):
        return ()
    return tuple(CaseOutcome(**one) for one in _run("gym.server.cases", entry, find_python, {"strict": strict}))


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


def _run(module: str, entry: CatalogEntry, find_python: FindPython, more: Mapping[str, Any]) -> list[dict[str, Any]]:
    grant = own_fields(entry).get("sandbox")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as trial:
        out = Path(scratch) / "out.jsonl"
        argv = (str(find_python(entry)), "-m", module, str(entry.directory), str(out))
        access = trial.enter_context(trial_broker(grant)).environ if isinstance(grant, dict) else {}
        addresses = trial.enter_context(trial_services(entry, os.environ))
        fields = {**case_fields(entry), **fields_with_services(entry, addresses)}
        spec = {"name": entry.name, "fields": fields, **more}
        env = {**os.environ, **access, **bytecode_elsewhere(os.environ)}
        run_program(argv, cwd=entry.directory, env=env, input=json.dumps(spec), timeout=SECONDS)
        return [json.loads(line) for line in out.read_bytes().splitlines()]
