"""Images made from text: the same text builds once, a failing step shows its last lines, nothing runs for ever."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import shutil
import tarfile
import tempfile
from collections import deque
from contextlib import aclosing
from pathlib import Path
from typing import Final

import orjson

from gym import labels
from gym.broker.provider import Progress
from gym.broker.providers.docker.dockerfile_sources import needs_buildkit
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused
from gym.broker.providers.docker.errors import ImageBuildFailed, explain_disk, explain_pull
from gym.broker.providers.docker.registry_auth import all_auths
from gym.engine import docker_environ
from gym.errors import ProgramFailed
from gym.programs import TIMED_OUT, run_program
from gym.wire.sandbox import Build

REPOSITORY: Final = "gym-task"
BUILDER: Final = "1"  # part of every key: another way of building is another image
LAST_LINES: Final = 30
INTERIM: Final = " --->"  # ids of layers and containers: of no use to who waits
MEMORY: Final = 8 << 30
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
PULLING: Final = re.compile(r"pull access denied|manifest|toomanyrequests|dial tcp|unauthorized|no such host", re.I)


def build_key(build: Build) -> str:
    """What went in, and nothing else."""
    files = {path: hashlib.sha256(data).hexdigest() for path, data in build.files.items()}
    parts = [BUILDER, build.dockerfile, files, build.args, build.network]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]


def build_tag(build: Build) -> str:
    return f"{REPOSITORY}:{build_key(build)}"


async def build_image(engine: EngineClient, build: Build, progress: Progress) -> str:
    """Its tag, once it is there."""
    tag = build_tag(build)
    log: deque[str] = deque(maxlen=LAST_LINES)

    def tell(line: str) -> None:
        if line.strip():
            log.append(line.rstrip())
            if not line.startswith(INTERIM):
                progress(line.rstrip())

    try:
        async with asyncio.timeout(build.timeout):
            if needs_buildkit(build.dockerfile):
                await asyncio.to_thread(_build_by_command, engine.host, build, tag)
            else:
                await _build_by_engine(engine, build, tag, tell)
    except TimeoutError:
        raise ImageBuildFailed(
            f"The build took longer than its {build.timeout:g} s and was ended.", _last(log)
        ) from None
    return tag


async def _build_by_engine(engine: EngineClient, build: Build, tag: str, tell: Progress) -> None:
    query = {
        "t": tag,
        "dockerfile": ".gym-dockerfile",
        "buildargs": orjson.dumps(build.args).decode(),
        "labels": orjson.dumps(_labels()).decode(),
        "networkmode": "default" if build.network else "none",
        "memory": MEMORY,
        "memswap": MEMORY,
        "rm": True,
        "forcerm": True,
        "version": 1,
    }
    headers = {"Content-Type": "application/x-tar"}
    if auths := await asyncio.to_thread(all_auths):
        headers["X-Registry-Config"] = auths
    log: deque[str] = deque(maxlen=LAST_LINES)
    doing = "build an image"
    lines = engine.lines("POST", "/build", query, body=pack_context(build), headers=headers, doing=doing)
    try:
        async with aclosing(lines):
            async for line in lines:
                for text in str(line.get("stream", "")).splitlines():
                    log.append(COLOURS.sub("", text))
                    tell(log[-1])
                if "status" in line:
                    tell(f"{line.get('id', '')} {line['status']}".strip())
                if "error" in line:
                    raise _failed(str(line["error"]), log)
    except EngineRefused as error:
        raise _failed(error.words, log) from error


def _build_by_command(host: str, build: Build, tag: str) -> None:
    """For what only BuildKit reads: it is behind the Docker command, not behind the engine's plain API."""
    if shutil.which("docker") is None:
        raise ImageBuildFailed(
            "This Dockerfile uses what only BuildKit knows (RUN --mount, heredocs, COPY --link), and there is no "
            "`docker` command beside this broker. Write it without, or build the image beforehand and name it."
        )
    with tempfile.TemporaryDirectory(prefix="gym-build-") as folder:
        with tarfile.open(fileobj=io.BytesIO(pack_context(build))) as tar:
            tar.extractall(folder, filter="data")
        marks = [word for key, value in _labels().items() for word in ("--label", f"{key}={value}")]
        given = [word for key, value in build.args.items() for word in ("--build-arg", f"{key}={value}")]
        where = ("--network", "default" if build.network else "none", "--file", f"{folder}/.gym-dockerfile")
        argv = ("docker", "build", "--progress", "plain", "--tag", tag, *where, *marks, *given, folder)
        try:
            run_program(argv, env=docker_environ(host), timeout=build.timeout)
        except ProgramFailed as error:
            if error.code == TIMED_OUT:
                raise TimeoutError from None
            raise _failed(error.output, deque()) from None


def pack_context(build: Build) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for path, data in {**build.files, ".gym-dockerfile": build.dockerfile.encode()}.items():
            entry = tarfile.TarInfo(str(Path(path)))
            entry.size = len(data)
            entry.mode = 0o755 if data.startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return whole.getvalue()


def _labels() -> dict[str, str]:
    return {labels.SANDBOX_IMAGE: "built"}


def _failed(words: str, log: deque[str]) -> Exception:
    if found := explain_disk(words):
        return found
    if PULLING.search(words) and (image := re.search(r"(?:for|pull|of|resolve)\s+([\w./:@-]+)", words)):
        return explain_pull(image[1], words)
    short = "\n".join(words.strip().splitlines()[-LAST_LINES:])
    return ImageBuildFailed(f"The Dockerfile does not build: {short}", _last(log))


def _last(log: deque[str]) -> str:
    return "\n".join(log)
