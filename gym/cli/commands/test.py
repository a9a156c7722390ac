"""`gym test NAME`: a server's own tests, verifier cases and the files of its folder, checked in its own environment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, as_completed
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.boundary import INTERRUPTED, Terminated
from gym.cli.image_tests import check_image
from gym.cli.named_images import OpenedImage, names_image, open_named_image
from gym.cli.selftest import Report, check_server
from gym.cli.server_python import cached_python, pytest_command
from gym.config import CatalogEntry, find_server, list_servers, own_fields, search_roots
from gym.errors import GymError, UserError
from gym.programs import program_threads
from gym.server.case_log import NO_START, NOT_RUN
from gym.wire.sandbox import ProviderName

AT_ONCE = min(8, (os.cpu_count() or 1) + 1)  # one more than cores: a server's tests wait for a third of their time
SandboxProvider = Annotated[
    ProviderName | None,
    typer.Option("--sandbox", metavar="PROVIDER", help="Try docker, bubblewrap or subprocess on this machine instead."),
]


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME|FOLDER|IMAGE", help="Servers.")] = None,
    all_servers: Annotated[bool, typer.Option("--all", help="Every server that `gym list` shows.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="A quick audit too, as with --all.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Oracle cases in strict mode too.")] = False,
    sandbox: SandboxProvider = None,
) -> int:
    """Run the tests and verifier cases of servers, each in its own environment. With --all, also a quick audit."""
    if sandbox is not None:
        return _test_provider(sandbox, names or [])
    images = {one.entry.directory: one for one in map(open_named_image, filter(names_image, names or []))}
    if audit and images:
        raise UserError("--audit looks at a server's folder, and an image is named.", "gym test IMAGE, without it")
    entries = _find_entries(names or [], images, all_servers=all_servers)
    check = partial(_check, images=images, audit=audit or all_servers, strict=strict)
    try:
        reports = _check_all(entries, check)
    except Terminated:
        raise
    except KeyboardInterrupt:  # what a test starts ends with it, so nothing is said of stacks
        console.note_in_new_line("interrupted; nothing is left running")
        return INTERRUPTED
    columns = ("SERVER", "", "TESTS", "CASES", "AUDIT", "TIME")
    console.show(console.make_table(columns, map(_row, reports), right=("TIME",)))
    return int(not all(report.passed for report in reports))


def _check_all(entries: list[CatalogEntry], check: Callable[[CatalogEntry], Report]) -> list[Report]:
    """Several at once; each one's findings are shown when it is done."""
    with program_threads(AT_ONCE) as pool:
        runs = {one.directory: pool.submit(check, one) for one in sorted(entries, key=_is_quick)}
        with console.busy(lambda: _testing(entries, runs)):
            for number, run in enumerate(as_completed(runs.values()), 1):
                report = run.result()
                show_problems(report)
                if len(runs) > 1:
                    verdict = "passed" if report.passed else "failed"
                    console.note(f"{number} of {len(runs)}: {report.name} {verdict} ({report.seconds:.1f} s)")
        return [runs[one.directory].result() for one in entries]


def _testing(entries: list[CatalogEntry], runs: Mapping[Path, Future[Report]]) -> str:
    """`testing mcqa, swe; 3 of 12 done`."""
    names = [one.name for one in entries if runs[one.directory].running()]
    done = sum(one.done() for one in runs.values())
    return f"testing {', '.join(names)}" + (f"; {done} of {len(runs)} done" if len(runs) > 1 else "")


def _check(entry: CatalogEntry, images: Mapping[Path, OpenedImage], *, audit: bool, strict: bool) -> Report:
    if image := images.get(entry.directory):
        return check_image(image, strict=strict)
    return check_server(entry, pytest_command, cached_python, audit=audit, strict=strict)


def _is_quick(entry: CatalogEntry) -> bool:
    """One that uses sandboxes takes minutes, others take seconds: at the end it would run with nothing beside it."""
    try:
        return "sandbox" not in own_fields(entry)
    except GymError:  # a config that cannot be read is reported with the other problems
        return True


def _test_provider(provider: ProviderName, names: list[str]) -> int:
    if names:
        raise UserError("--sandbox tests a provider of sandboxes, and servers are named beside it.", "One at a time.")
    from gym.cli.sandbox.conformance import try_provider  # noqa: PLC0415 (who tests a server need not import it)

    return try_provider(provider)


def _find_entries(names: list[str], images: Mapping[Path, OpenedImage], *, all_servers: bool) -> list[CatalogEntry]:
    roots = search_roots(Path.cwd(), os.environ)
    if all_servers:
        return list(list_servers(roots))
    if not names:
        raise UserError("Which server? None is named.", "gym test NAME, gym test IMAGE, or gym test --all")
    servers = [find_server(name, roots) for name in names if not names_image(name)]
    return [*servers, *(one.entry for one in images.values())]


def show_problems(report: Report) -> None:
    if report.output:
        console.show_raw(f"{report.name}:\n{report.output.rstrip()}\n")
    for problem in report.problems:
        console.note(f"{report.name}: {problem}", style="yellow")
    if report.differing:
        _show_differing(report)
    for finding in report.failed_checks:
        console.note(f"{report.name}: audit: {finding.check}: {finding.detail}", style="yellow")
    for hint in report.hints:
        console.note(f"{report.name}: {hint}")


def _show_differing(report: Report) -> None:
    left = [one for one in report.differing if one.got == NOT_RUN]
    unbegun = Counter(one.got for one in report.differing if one.got.startswith(NO_START))
    rows = [
        (one.name, one.expected, one.got, one.reason)
        for one in report.differing
        if one not in left and one.got not in unbegun
    ]
    if rows:
        console.show(f"{report.name}: {len(rows)} of {len(report.outcomes)} verifier cases differ")
        console.show(console.make_table(("CASE", "EXPECTED", "GOT", "REASON"), rows))
    for why, count in unbegun.items():
        console.note(f"{report.name}: {count} of {len(report.outcomes)} verifier cases got {why}", style="yellow")
    if left:
        console.note(f"{report.name}: {len(left)} cases were not run: {left[0].reason}", style="yellow")


def _row(report: Report) -> tuple[str | Text, ...]:
    verdict = Text("passed", style="green") if report.passed else Text("failed", style="bold red")
    cases = _share(len(report.outcomes) - len(report.differing), len(report.outcomes))
    audit = _share(len(report.findings) - len(report.failed_checks), len(report.findings))
    return report.name, verdict, report.tests, cases, audit, f"{report.seconds:.1f}s"


def _share(passed: int, count: int) -> str:
    if not count:
        return ""
    return f"{count} passed" if passed == count else f"{passed} of {count}"
