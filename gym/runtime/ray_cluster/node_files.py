"""What a node of a Ray cluster needs of a stack: its packs, unpacked once, and one Python with our tools.

Runs in Ray's own Python, into which it is sent by value: the standard library is all that it may import.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

FetchPack = Callable[[str], bytes]
MARK = ".complete"
OF_RAY = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")  # the environment that this runs in


class NotMade(Exception):  # noqa: N818 (it is shown as a replica's state)
    """Why a node has no environment, in the words of the program that was to make it."""


def node_cache() -> Path:
    """As gym.venvs.cache_dir has it, on this node."""
    if named := os.environ.get("GYM_CACHE_DIR"):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "compose-gym"


def logs_folder() -> Path:
    """Where `ray logs` looks on this node."""
    from ray._private import worker  # noqa: PLC0415 (Ray's Python alone has it)

    return Path(worker._global_node.get_logs_dir_path())


def unpack(cache: Path, key: str, fetch: FetchPack) -> Path:
    """The folder of a pack; a second replica on this node finds it there."""
    folder = cache / "ray" / "packs" / key
    with _once(folder) as missing:
        if missing:
            data = fetch(key)
            if hashlib.sha256(data).hexdigest() != key:
                raise NotMade(f"what Ray's store has as pack {key[:12]} is another one: `gym up` brings it again")
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
                archive.extractall(folder, filter="data")
    return folder


def make_toolkit(cache: Path, toolkit: Mapping[str, Any], fetch: FetchPack) -> Path:
    """The Python that runs gym itself on this node: the same wheel as the caller's, apart from Ray's packages."""
    pack = unpack(cache, toolkit["pack"], fetch)
    folder = cache / "ray" / "toolkits" / f"{toolkit['pack'][:24]}-py{sys.version_info[0]}{sys.version_info[1]}"
    python = folder / "bin" / "python"
    with _once(folder) as missing:
        if missing:
            uv = _find_uv(cache)
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
            wheel = f"compose-gym[cli] @ {next((pack / 'wheel').glob('*.whl')).as_uri()}"
            shared = str(pack / "assets" / "requirements" / "server.txt")
            _run([uv, "pip", "install", "--quiet", "--python", str(python), wheel, "--constraint", shared])
            package = next(folder.glob("lib/python*/site-packages/gym"))
            shutil.copytree(pack / "assets", package / "_assets", dirs_exist_ok=True)
    return python


@contextlib.contextmanager
def _once(folder: Path) -> Iterator[bool]:
    """Whether it has to be made; marked as complete unless that failed."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / MARK).is_file():
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        yield True
        (folder / MARK).touch()


def _find_uv(cache: Path) -> str:
    """This node's, or one that pip brings."""
    beside = Path(sys.executable).parent / "uv"
    if beside.is_file():
        return str(beside)
    if found := shutil.which("uv"):
        return found
    folder = cache / "ray" / "uv"
    with _once(folder) as missing:
        if missing:
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv>=0.9,<1"])
    return str(folder / "bin" / "uv")


def _run(argv: list[str]) -> None:
    environ = {key: value for key, value in os.environ.items() if key not in OF_RAY}
    ended = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        words = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-12:])
        raise NotMade(f"`{' '.join(argv[:3])}` ended with exit code {ended.returncode}: {words}")
