"""Servers' virtual environments: made by uv, named by the digest of what is in them, shared by all stacks.

One is usable only once its mark is written; a half-made one is rebuilt.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gym import labels
from gym.config import extra_lines, portable_requirements
from gym.errors import ProgramFailed, StartFailed, UserError
from gym.files import asset_dir
from gym.plan.model import Plan, Service
from gym.runtime.interpreters import explain_python, find_python, wanted_python
from gym.runtime.wheel import sdk_wheel
from gym.venvs import alone, install_environment, is_made

NO_SOLUTION = "No solution found"  # uv's words where requirements contradict one another
AT_ONCE = 4  # uv itself works in parallel

Report = Callable[[Mapping[str, str]], None]  # instance -> what is being done for it


@dataclass(frozen=True)
class Environment:
    """What one environment is made of."""

    directory: Path  # the server's folder: its requirements, which may name paths beside them
    wheel: Path | None  # our SDK; a server written against nemo_gym brings its own
    digest: str
    python: str = sys.executable
    lines: tuple[str, ...] | None = None  # what to ask for instead of what the folder says
    more: tuple[str, ...] = ()  # to install beside it

    @property
    def requirements(self) -> Path | None:
        """None where the folder is a package that says itself what it needs, or needs nothing."""
        path = self.directory / "requirements.txt"
        return path if path.is_file() else None

    @property
    def is_package(self) -> bool:
        return self.requirements is None and (self.directory / "pyproject.toml").is_file()


def prepare_environments(plan: Plan, cache: Path, report: Report) -> dict[str, Path]:
    """Instance -> its interpreter, for those that this Python is not enough for; missing ones are made in parallel."""
    wanted = {one.name: describe_environment(one, cache) for one in plan.services if _needs_one(one)}
    made = {name: _python_of(cache, one) for name, one in wanted.items()}
    todo = {one.digest: (name, one) for name, one in wanted.items() if not _is_complete(cache, one)}
    if todo:
        report({name: "making its environment" for name, one in wanted.items() if one.digest in todo})
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for result in [pool.submit(_make_for, name, one, cache) for name, one in todo.values()]:
                result.result()
    return made


def prepare_environment(service: Service, cache: Path) -> Path:
    """The interpreter for one server."""
    if not _needs_one(service):
        return Path(sys.executable)
    environment = describe_environment(service, cache)
    if not _is_complete(cache, environment):
        _make_for(service.name, environment, cache)
    return _python_of(cache, environment)


def _needs_one(service: Service) -> bool:
    if service.requirements_digest or service.directory is None:
        return bool(service.requirements_digest)
    if "redis" in service.extras and find_spec("redis") is None:  # of `state:`; gym itself has it for queues at most
        return True
    return find_python(service.python, server=service.name) != sys.executable


def describe_environment(service: Service, cache: Path) -> Environment:
    assert service.directory is not None
    python = find_python(wanted_python(service), server=service.name)
    lines = portable_requirements(service.directory)
    more = extra_lines(service.extras)
    wheel = sdk_wheel(cache / "wheels") if service.launch == "sdk" else None
    facts = [
        service.requirements_digest,
        *(_text(service.directory / name) for name in ("requirements.txt", "overrides.txt", "pyproject.toml")),
        "\n".join(lines or ()),
        *more,
        wheel.parent.name if wheel else "",
        sys.version if python == sys.executable else python,
        sysconfig.get_platform(),
    ]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:24]
    return Environment(service.directory, wheel, digest, python, lines, more)


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _folder(cache: Path, environment: Environment) -> Path:
    return cache / "envs" / environment.digest


def _python_of(cache: Path, environment: Environment) -> Path:
    return _folder(cache, environment) / "bin" / "python"


def _is_complete(cache: Path, environment: Environment) -> bool:
    return is_made(_folder(cache, environment))


def _make_for(name: str, environment: Environment, cache: Path) -> None:
    try:
        with alone(cache, environment.digest):
            if not _is_complete(cache, environment):
                _make(environment, _folder(cache, environment))
    except ProgramFailed as error:
        if explained := explain_python(error.output, server=name):
            raise explained from error
        log = "\n".join(error.output.strip().splitlines()[-20:])
        where = environment.requirements or environment.directory / "pyproject.toml"
        raise StartFailed(
            name, "its environment could not be made. uv says:", log, f"Fix {where}, then try again."
        ) from error
    except OSError as error:
        raise UserError(
            f"{name}: its environment cannot be made in {cache}: {error.strerror}.",
            f"Choose another folder: export {labels.ENV_CACHE}=/path/with/space",
        ) from error


def _make(environment: Environment, folder: Path) -> None:
    # Requirements may name paths; they are meant from the server's folder.
    words = None if environment.lines is None else "\n".join(environment.lines)

    def install(what: list[str]) -> None:
        install_environment(folder, what, environment.python, cwd=environment.directory, requirements=words)

    try:
        install([*_what(environment), *_shared_versions(environment)])
    except ProgramFailed as error:
        if environment.wheel is None or NO_SOLUTION not in error.output:
            raise
        install(_what(environment))  # wants other versions than servers share; the SDK's own requirements still hold


def _shared_versions(environment: Environment) -> list[str]:
    return ["--constraint", str(asset_dir("requirements") / "server.txt")] if environment.wheel is not None else []


def _what(environment: Environment) -> list[str]:
    requirements = "-" if environment.lines is not None else environment.requirements
    asked = ["--requirement", str(requirements)] if requirements else []
    if environment.lines is None and environment.is_package:
        asked = [str(environment.directory)]
    overrides = environment.directory / "overrides.txt"
    if overrides.is_file():
        asked += ["--override", str(overrides)]
    if environment.wheel is not None:
        asked.append(str(environment.wheel))
    return [*asked, *environment.more]
