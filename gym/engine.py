"""The container engine: does one answer, which, and is it new enough. Asked over its socket, in milliseconds."""

from __future__ import annotations

import functools
import http.client
import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from gym.errors import GymError, InfraError, ProgramFailed
from gym.files import read_object
from gym.programs import TIMED_OUT, run_program

if TYPE_CHECKING:
    import docker

ENGINE_FLOOR: Final = (25, 0)  # healthcheck.start_interval
COMPOSE_FLOOR: Final = (2, 26)
QUICK_TIMEOUT: Final = 2.0  # one that is not there refuses at once; one that is busy may need a second
REQUIRED_TIMEOUT: Final = 10.0
COMPOSE_SECONDS: Final = 60.0  # a program's start: on a machine under load 10 s were not enough
NO_PLUGIN: Final = re.compile(r"not a docker command|unknown command|unknown (shorthand )?flag", re.IGNORECASE)
CLIENT_SECONDS: Final = 120.0
FAR: Final = re.compile(r"^(ssh://|tcp://(?!localhost[:/]|127\.|\[::1\]))")
SCRIPT: Final = Path(__file__).parents[1] / "scripts" / "docker-engine"
DEFAULT_SOCKET: Final = "/var/run/docker.sock"
_ASKING: Final = threading.Lock()  # who needs the answer waits for the one that was asked ahead


class EngineFacts(NamedTuple):
    version: str
    compose: str  # its version; "" where it was not asked
    host: str  # "unix:///var/run/docker.sock"


def engine_answers() -> EngineFacts | None:
    """The engine that `docker` would talk to, when it answers at once, is new enough and has Compose; else None."""
    found = find_engine()
    return None if isinstance(found, InfraError) else found


def find_engine(*, compose: bool = True) -> EngineFacts | InfraError:
    """The same, or why there is none to use; without `compose` for those that ask the engine alone."""
    try:
        return _engine(QUICK_TIMEOUT, compose=compose)
    except InfraError as error:
        return error


def require_engine(*, compose: bool = True) -> EngineFacts:
    """The engine; or why there is none that we can use, and what to do about it."""
    return _engine(REQUIRED_TIMEOUT, compose=compose)


@contextmanager
def connect(host: str) -> Iterator[docker.DockerClient]:
    """A client of the Engine API; its import costs a tenth of a second, so only who needs it pays."""
    import docker  # noqa: PLC0415

    client = docker.DockerClient(base_url=host, timeout=int(CLIENT_SECONDS))
    try:
        yield client
    finally:
        client.close()


def docker_environ(host: str) -> dict[str, str]:
    """For the CLI: this engine and no other; bake may read what the build document names."""
    chosen = {"DOCKER_HOST": host, "BUILDX_BUILDER": "default"}  # another builder would not see the base image
    return {**os.environ, **chosen, "BUILDX_BAKE_ENTITLEMENTS_FS": "0", "COMPOSE_ANSI": "never"}


def _engine(seconds: float, *, compose: bool) -> EngineFacts:
    host = engine_host()
    if FAR.match(host):
        raise InfraError(
            f"The engine at {host} is on another machine, where a stack's files (`.gym/`) are not.",
            "Run gym on that machine: gym save -o FILE here, gym load FILE there; or: gym up --runtime local ...",
        )
    version = _version_of(host, seconds)
    if _numbers(version) < ENGINE_FLOOR:
        raise InfraError(
            f"The engine at {host} is Docker {version}; 25 is the oldest that works here.",
            "Upgrade it, or run without containers: gym up --runtime local ...",
        )
    return EngineFacts(version, _checked_compose() if compose else "", host)


def _checked_compose() -> str:
    with _ASKING:
        version = _compose_version()
    if _numbers(version) < COMPOSE_FLOOR:
        raise InfraError(
            f"`docker compose` is {version or 'not installed'}; 2.26 is the oldest that works here.",
            f"Install or upgrade the Compose plugin{_by_script()}, or: gym up --runtime local ...",
        )
    return version


def ask_compose_ahead() -> None:
    """Compose needs a tenth of a second to print its version; the command that needs it imports modules meanwhile."""
    threading.Thread(target=_ask_ahead, name="compose version", daemon=True).start()


def _ask_ahead() -> None:
    with suppress(GymError), _ASKING:  # the one who needs the answer gets the error
        _compose_version()


def engine_host() -> str:
    """`DOCKER_HOST`, else the current context of the Docker CLI, else the usual socket."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = os.environ.get("DOCKER_CONTEXT") or read_object(folder / "config.json").get("currentContext", "default")
    if name and name != "default":
        for meta in folder.glob("contexts/meta/*/meta.json"):
            found = read_object(meta)
            if found.get("Name") == name:
                return str(found.get("Endpoints", {}).get("docker", {}).get("Host") or f"unix://{DEFAULT_SOCKET}")
    return f"unix://{DEFAULT_SOCKET}"


class SocketFacts(NamedTuple):
    """The engine's socket as a container is given it."""

    path: str
    group: int | None  # which may open it; None where this machine cannot tell


def socket_facts(host: str) -> SocketFacts:
    """Docker Desktop's engine runs in a machine of its own, where the socket has its usual place and is root's."""
    if not host.startswith("unix://"):
        raise InfraError(
            f"The engine at {host} has no socket on this machine that a sandbox broker could be given.",
            "Use the engine's unix socket (DOCKER_HOST=unix:///var/run/docker.sock), or: gym up --runtime local ...",
        )
    path = host.removeprefix("unix://")
    if sys.platform != "linux":
        return SocketFacts(DEFAULT_SOCKET, 0)
    try:
        return SocketFacts(os.path.realpath(path), os.stat(path).st_gid)  # noqa: PTH116 (a text in, a text out)
    except OSError:
        return SocketFacts(path, None)


def _by_script() -> str:
    """Who installed the package has no checkout, and so no script."""
    return " (on Debian: scripts/docker-engine)" if SCRIPT.is_file() else ""


def _version_of(host: str, seconds: float) -> str:
    hint = f"Start it{_by_script()}, or run without containers: gym up --runtime local ..."
    try:
        if host.startswith("unix://"):
            return _ask_socket(host.removeprefix("unix://"), seconds)
        argv = ("docker", "--host", host, "version", "--format", "{{.Server.Version}}")
        return run_program(argv, timeout=max(seconds, 2.0)).strip()
    except PermissionError:
        raise InfraError(
            f"Docker's socket {host} is there, but this user may not open it.",
            'Join its group: sudo usermod -aG docker "$USER", then log in again; or: gym up --runtime local ...',
        ) from None
    except (OSError, ValueError, http.client.HTTPException, ProgramFailed) as error:
        words = getattr(error, "strerror", None) or str(error).splitlines()[-1:] or [type(error).__name__]
        reason = words if isinstance(words, str) else words[0]
        raise InfraError(f"No container engine answers at {host}: {reason}.", hint) from None


class SocketConnection(http.client.HTTPConnection):
    """Of the standard library: the broker imports this module, and its image has no httpx."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _ask_socket(path: str, seconds: float) -> str:
    connection = SocketConnection(path, seconds)
    try:
        connection.request("GET", "/version")
        return str(orjson.loads(connection.getresponse().read())["Version"])
    finally:
        connection.close()


@functools.cache
def _compose_version() -> str:
    """Once a process: the plugin does not change under a running command."""
    if shutil.which("docker") is None:
        raise InfraError(
            "An engine answers, but there is no `docker` command on the PATH.",
            f"Install the Docker CLI with its Compose plugin{_by_script()}.",
        )
    try:
        return run_program(("docker", "compose", "version", "--short"), timeout=COMPOSE_SECONDS).strip().lstrip("v")
    except ProgramFailed as error:
        if error.code != TIMED_OUT and NO_PLUGIN.search(error.output):
            return ""
        raise _compose_silent(error) from None


def _compose_silent(error: ProgramFailed) -> InfraError:
    """The plugin may well be there: what it did instead of an answer."""
    if error.code == TIMED_OUT:
        return InfraError(
            f"`docker compose version` gave no answer within {COMPOSE_SECONDS:g} s: this machine is very busy, or the "
            "command hangs.",
            "Type `docker compose version` to see which, then try again; or: gym up --runtime local ...",
        )
    said = (error.output.strip().splitlines() or ["nothing"])[-1]
    return InfraError(
        f"`docker compose version` ended with exit code {error.code}: {said}",
        f"Repair the Compose plugin{_by_script()}, or: gym up --runtime local ...",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
