"""`gym test IMAGE`: a packed environment's tests and verifier cases, inside its image, bounded as its servers are.

No network, no rights, nothing of this machine but pytest: who packed an image is not who tests it.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from gym.cli.named_images import OpenedImage
from gym.cli.selftest import (
    ENTRYPOINT,
    NO_SETTINGS,
    OPTIONS,
    PLUGINS,
    SETTINGS,
    TEST_SECONDS,
    Report,
    find_gaps,
    last_line,
    one_test_seconds,
)
from gym.cli.server_python import BOOT, pytest_for
from gym.cli.verifying import case_fields, say_how_it_ended, words_of
from gym.config import CatalogEntry, is_foreign, own_fields
from gym.config.strict import declares_strict
from gym.engine import docker_environ, engine_host
from gym.errors import GymError, ProgramFailed
from gym.labels import ENV_TEST_SECONDS
from gym.programs import run_program
from gym.render.compose import MEMORY, PIDS, USER
from gym.render.pack import FOLDER
from gym.server.case_log import STACKS, CaseOutcome
from gym.server.cases import CASES
from gym.venvs import cache_dir

TOOLS: Final = "/opt/gym-pytest"
OUT: Final = "out.jsonl"
VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


def check_image(opened: OpenedImage, *, strict: bool = False) -> Report:
    began, entry = time.monotonic(), opened.entry
    tests, output = _run_tests(opened, entry)
    problems, hints = list(find_gaps(entry)), []
    outcomes: tuple[CaseOutcome, ...] = ()
    if isinstance(own_fields(entry).get("sandbox"), dict):
        hints.append("its verifier cases ask for sandboxes, which a single image has not; a checkout of it runs them")
    else:
        try:
            outcomes = _run_cases(opened, entry, strict=False)
            silent = any(one.is_silent for one in outcomes)
            outcomes += _run_cases(opened, entry, strict=True) if strict and not silent else ()
        except ProgramFailed as error:
            problems.append(words_of(error))
    seconds = time.monotonic() - began
    return Report(opened.packed.reference, tuple(problems), tests, output, seconds, outcomes, hints=tuple(hints))


def _run_tests(opened: OpenedImage, entry: CatalogEntry) -> tuple[str, str]:
    if not (entry.directory / "tests").is_dir():
        return "no tests", ""
    foreign = is_foreign(entry.directory, ENTRYPOINT)
    folder = f"{FOLDER}/{opened.packed.server}"
    own = any((entry.directory / name).is_file() for name in SETTINGS)
    options = (*OPTIONS, *(() if foreign else PLUGINS), *(() if own else NO_SETTINGS), f"--rootdir={folder}", "tests")
    tree = f"/tmp/tree/{entry.type}"  # as selftest does for servers written against nemo_gym  # noqa: S108
    before = f"mkdir -p {tree} && ln -s {shlex.quote(folder)} {tree}/ && export PYTHONPATH=/tmp/tree && "
    command = f"{before if foreign else ''}exec {shlex.join(('python', '-c', BOOT, TOOLS, *options))}"
    try:
        version = _in_image(opened, f"exec python -c {shlex.quote(VERSION)}").strip()
        tools = pytest_for(cache_dir(os.environ), version)
        seconds = os.environ.get(ENV_TEST_SECONDS) or one_test_seconds(entry)
        more = ("--volume", f"{tools}:{TOOLS}:ro", "--env", f"{ENV_TEST_SECONDS}={seconds}")
        return last_line(_in_image(opened, command, *more)), ""
    except ProgramFailed as error:
        return last_line(error.output), error.output
    except GymError as error:
        return "could not run", str(error)


def _run_cases(opened: OpenedImage, entry: CatalogEntry, *, strict: bool) -> tuple[CaseOutcome, ...]:
    if not (entry.directory / CASES).is_file() or (strict and not declares_strict(entry.directory)):
        return ()
    spec = {"name": entry.name, "fields": case_fields(entry), "strict": strict}
    mark, folder = secrets.token_hex(8), f"{FOLDER}/{opened.packed.server}"
    run = f"python -m gym.server.cases {shlex.quote(folder)} /tmp/{OUT} >/tmp/log 2>&1; code=$?"
    show = f"for one in {OUT} {Path(OUT).with_suffix(STACKS)} log; do cat /tmp/$one 2>/dev/null; echo {mark}; done"
    parts = _in_image(opened, f"{run}; {show}; echo $code", input=json.dumps(spec)).split(f"{mark}\n")
    return _read_outcomes(*parts, folder=Path(folder))


def _read_outcomes(cases: str, stacks: str, log: str, code: str, *, folder: Path) -> tuple[CaseOutcome, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / OUT
        out.write_text(cases, "utf-8")
        out.with_suffix(STACKS).write_text(stacks, "utf-8")
        found: list[dict[str, Any]] = [json.loads(line) for line in cases.splitlines() if line]
        if number := int(code):
            ended = 128 - number if number > 128 else number  # a shell's word for a signal
            found = say_how_it_ended(ProgramFailed(("gym.server.cases",), ended, log), out, folder)
    return tuple(CaseOutcome(**one) for one in found)


def _in_image(opened: OpenedImage, command: str, *more: str, input: str = "") -> str:
    """In the pack's own folder; what is still there after an error or Ctrl-C is removed."""
    name, host = f"gym-test-{secrets.token_hex(6)}", engine_host()
    bounds = ("--network", "none", "--read-only", "--tmpfs", "/tmp", "--user", USER, "--cap-drop", "ALL")  # noqa: S108
    limits = ("--security-opt", "no-new-privileges", "--memory", MEMORY, "--pids-limit", str(PIDS))
    place = ("--workdir", f"{FOLDER}/{opened.packed.server}", "--env", "HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis")
    start = ("docker", "run", "--rm", "--interactive", "--init", "--name", name, *bounds, *limits, *place, *more)
    argv = (*start, "--entrypoint", "sh", opened.packed.image, "-c", command)
    try:
        return run_program(argv, env=docker_environ(host), input=input, timeout=TEST_SECONDS)
    except BaseException:
        run_program(("docker", "rm", "--force", name), env=docker_environ(host))
        raise
