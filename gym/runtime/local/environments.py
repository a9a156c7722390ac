"""Servers' virtual environments: made by uv, named by the digest of what is in them, shared by all stacks.

One is usable only once its mark is written; a half-made one is made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gym import labels
from gym.config import asset_dir
from gym.errors import ProgramFailed, StartFailed, UserError
from gym.plan.model import Plan, Service
from gym.runtime.programs import find_program, run_program
from gym.runtime.wheel import sdk_wheel

AT_ONCE = 4  # uv itself works in parallel
MARK = ".complete"

Report = Callable[[Mapping[str, str]], None]  # instance -> what is being done for it


@dataclass(frozen=True)
class Environment:
    """What one environment is made of."""

    directory: Path  # the server's folder: its requirements, which may name paths beside them
    wheel: Path | None  # our SDK; a server written against nemo_gym brings its own
    digest: str

    @property
    def requirements(self) -> Path | None:
        """None where the folder is a package that says itself what it needs."""
        path = self.directory / "requirements.txt"
        return path if path.is_file() else None


def cache_dir(environ: Mapping[str, str]) -> Path:
    if named := environ.get(labels.ENV_CACHE):
        return Path(named).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "compose-gym"


def prepare_environments(plan: Plan, cache: Path, report: Report) -> dict[str, Path]:
    """Instance -> its interpreter, for those that this Python is not enough for; missing ones are made in parallel."""
    wanted = {one.name: describe_environment(one, cache) for one in plan.services if one.requirements_digest}
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
    if not service.requirements_digest:
        return Path(sys.executable)
    environment = describe_environment(service, cache)
    if not _is_complete(cache, environment):
        _make_for(service.name, environment, cache)
    return _python_of(cache, environment)


def describe_environment(service: Service, cache: Path) -> Environment:
    assert service.directory is not None
    wheel = sdk_wheel(cache / "wheels") if service.launch == "sdk" else None
    facts = [
        service.requirements_digest,
        *(_text(service.directory / name) for name in ("requirements.txt", "overrides.txt", "pyproject.toml")),
        wheel.parent.name if wheel else "",
        sys.version,
        sysconfig.get_platform(),
    ]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:24]
    return Environment(service.directory, wheel, digest)


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _folder(cache: Path, environment: Environment) -> Path:
    return cache / "envs" / environment.digest


def _python_of(cache: Path, environment: Environment) -> Path:
    return _folder(cache, environment) / "bin" / "python"


def _is_complete(cache: Path, environment: Environment) -> bool:
    return (_folder(cache, environment) / MARK).is_file()


def _make_for(name: str, environment: Environment, cache: Path) -> None:
    try:
        with _alone(cache, environment):
            if not _is_complete(cache, environment):
                _make(environment, _folder(cache, environment))
    except ProgramFailed as error:
        log = "\n".join(error.output.strip().splitlines()[-20:])
        where = environment.requirements or environment.directory / "pyproject.toml"
        raise StartFailed(
            name, "its environment could not be made. uv says:", log, f"Mend {where}, then try again."
        ) from error
    except OSError as error:
        raise UserError(
            f"{name}: its environment cannot be made in {cache}: {error.strerror}.",
            f"Choose another folder: export {labels.ENV_CACHE}=/path/with/space",
        ) from error


def _make(environment: Environment, folder: Path) -> None:
    uv = str(find_program("uv", package="uv"))
    shutil.rmtree(folder, ignore_errors=True)
    run_program([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], cwd=environment.directory)
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--compile-bytecode"]
    # Requirements may name paths; they are meant from the server's folder.
    run_program([*install, *_what(environment)], cwd=environment.directory, env=_without_own_venv())
    (folder / MARK).touch()


def _what(environment: Environment) -> list[str]:
    requirements = environment.requirements
    asked = ["--requirement", str(requirements)] if requirements else [str(environment.directory)]
    overrides = environment.directory / "overrides.txt"
    if overrides.is_file():
        asked += ["--override", str(overrides)]
    if environment.wheel is not None:
        asked += [str(environment.wheel), "--constraint", str(asset_dir("requirements") / "server.txt")]
    return asked


def _without_own_venv() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}


@contextlib.contextmanager
def _alone(cache: Path, environment: Environment) -> Iterator[None]:
    """Two stacks that need the same environment at once make it once."""
    (cache / "envs").mkdir(parents=True, exist_ok=True)
    with (cache / "envs" / f"{environment.digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
