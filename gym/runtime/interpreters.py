"""Which Python a server's environment is made of, and what to say when there is none, or when it is too old."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gym.errors import ProgramFailed, UserError
from gym.plan.model import Service
from gym.programs import find_program, run_program

UPSTREAM: Final = ">=3.12"  # no nemo-gym on the registry takes an earlier one
_FLOORS: Final = (
    re.compile(
        r"current Python version \((?P<here>[\d.]+)\) does not satisfy Python(?P<floor>[<>=!~\d.,*]+)"
        r"\s+and\s+(?P<rest>[^,]+)"
    ),
    re.compile(r"(?P<rest>\S+ requires )Python (?P<floor>[<>=!~][<>=!~\d.,*]*)"),  # of wheels without an index
)
_WANTS: Final = (re.compile(r"you\s+require\s+(\S+)"), re.compile(r"(\S+)\s+(?:depends\s+on|requires )"))
_MISSING: Final = re.compile(
    r"No interpreter found for (?P<what>.+?) in|No download found for request: (?P<other>\S+)"
    r"|Failed to download \S*/cpython-(?P<fetched>\d+\.\d+\.\d+)"
)
_HERE: Final = (
    "Install it (pyenv install, uv python install, your system's packages), or name an interpreter: "
    "python_version: /path/to/python3"
)


def wanted_python(service: Service) -> str:
    """What is asked for by configuration, else by the toolkit a server is written against."""
    return service.python or (UPSTREAM if service.launch == "script" and service.requirements_digest else "")


def find_python(request: str, *, server: str, environ: Mapping[str, str] | None = None) -> str:
    """The path of such an interpreter: ours, one of pyenv's, one that uv finds, or one that it fetches."""
    environ = os.environ if environ is None else environ
    if request.startswith(("/", "~")):
        return _given(Path(request).expanduser(), server)
    if not request or _fits(sys.version_info[:3], request):
        return sys.executable
    for version, path in _from_pyenv(environ):
        if _fits(version, request):
            return str(path)
    return _from_uv(request, server, environ)


def explain_python(words: str, *, server: str, hint: str = _HERE) -> UserError | None:
    """uv's words about a Python that is too old or not there, in one sentence; None where they are about another thing.
    `hint`: where to get one."""
    text = " ".join(words.split())
    floors = [one for form in _FLOORS for one in form.finditer(text)]
    if floors:
        lowest = min(floors, key=lambda one: _numbers(one["floor"]))
        named = (found for wants in _WANTS for one in (lowest, *floors) if (found := wants.search(one["rest"])))
        package = next((one[1] for one in named), "what it requires")
        here = lowest.groupdict().get("here") or "another"
        return UserError(
            f"{server}: {package} needs Python {lowest['floor']}, and its environment has {here}.",
            _how_to_ask(".".join(map(str, _numbers(lowest["floor"])))),
        )
    if found := _MISSING.search(text):
        return _absent(found["what"] or found["other"] or found["fetched"], server, "", hint)
    return None


def _given(path: Path, server: str) -> str:
    if os.access(path, os.X_OK) and path.is_file():
        return str(path)
    raise UserError(f"{server}: python_version: {path} is not a program.", "Name an interpreter, or a version: 3.13")


def _from_pyenv(environ: Mapping[str, str]) -> Iterator[tuple[tuple[int, ...], Path]]:
    """The newest first. uv only sees the shims of pyenv, which stand for one version at a time or none."""
    root = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [(_numbers(one.name), one / "bin" / "python") for one in root.glob("[0-9]*") if one.name[-1].isdecimal()]
    yield from sorted(((version, path) for version, path in found if os.access(path, os.X_OK)), reverse=True)


def _from_uv(request: str, server: str, environ: Mapping[str, str]) -> str:
    uv = str(find_program("uv", package="uv"))
    find = (uv, "python", "find", "--no-project", request)
    env = {**environ, "PATH": _without_shims(environ.get("PATH", ""))}
    try:
        return run_program((*find, "--no-python-downloads"), env=env).strip()
    except ProgramFailed:
        pass
    try:
        run_program((uv, "python", "install", "--no-progress", request), env=env)
        return run_program(find, env=env).strip()
    except ProgramFailed as error:
        words = [line.strip() for line in error.output.strip().splitlines() if line.strip()]
        raise _absent(request, server, words[-1] if words else "") from None


def _absent(request: str, server: str, why: str, hint: str = _HERE) -> UserError:
    reason = f", and uv cannot fetch one ({why.removeprefix('cause: ').removeprefix('error: ')})" if why else ""
    asked = request if request.lower().startswith(("python", "cpython")) else f"Python {request}"
    return UserError(f"{server}: there is no {asked} here{reason}.", hint)


def _how_to_ask(version: str) -> str:
    return f'Write `python_version: "{version}"` beside its entrypoint, or for all of them: +python_version={version}'


def _fits(version: tuple[int, ...], request: str) -> bool:
    """For the plain forms, `3.13`, `3.13.0`, `>=3.12`; uv is asked about the others."""
    asked = re.fullmatch(r"(?P<sign>>=|==)?\s*(?P<version>\d+(\.\d+){0,2})", request.strip())
    if asked is None:
        return False
    numbers = _numbers(asked["version"])
    return version >= numbers if asked["sign"] == ">=" else version[: len(numbers)] == numbers


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(one) for one in found[0].split(".")) if found else ()


def _without_shims(path: str) -> str:
    return os.pathsep.join(one for one in path.split(os.pathsep) if Path(one).name != "shims")
