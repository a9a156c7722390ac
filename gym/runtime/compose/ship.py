"""A built stack as one file: its images and its plan, for a machine with no network. Values of secrets stay behind."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import ValidationError

from gym.errors import UserError
from gym.plan.model import Plan, Value
from gym.render.compose import ROUTER_IMAGE
from gym.runtime.compose.engine import docker_environ, require_engine
from gym.runtime.compose.layout import Layout, State, write_saved
from gym.runtime.compose.sealing import named_in
from gym.runtime.programs import run_program

MANIFEST: Final = "gym-stack.json"
IMAGES: Final = "images.tar"


class Manifest(Value):
    """What the file says of itself, before its images."""

    format: Literal["gym-stack"] = "gym-stack"
    version: Literal[1] = 1
    plan: Plan
    images: dict[str, str]  # instance -> image
    base_image: str
    router_image: str = ROUTER_IMAGE
    overrides: dict[str, str] = {}  # name -> text of the user's own Compose files

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that the stack asks for."""
        return named_in(self.plan.model_dump_json())


def save_stack(home: Path, target: Path) -> Manifest:
    """Write a stack that was brought up in `home` to `target`, whole or not at all."""
    layout = Layout(home.resolve())
    plan, state = layout.read_plan(), layout.read_state()
    if plan is None or not state.base_image:
        raise UserError(f"There is no built stack in {home}.", "Build one first: gym up NAMES")
    manifest = Manifest(
        plan=plan,
        images=state.images,
        base_image=state.base_image,
        overrides={Path(path).name: Path(path).read_text("utf-8") for path in state.overrides},
    )
    engine = require_engine()
    unfinished = target.with_name(f".{target.name}.part")
    images = target.with_name(f".{target.name}.images")
    wanted = sorted({*state.images.values(), state.base_image, ROUTER_IMAGE})
    try:
        run_program(("docker", "save", "--output", str(images), *wanted), env=docker_environ(engine.host))
        with tarfile.open(unfinished, "w") as archive:
            _add_text(archive, MANIFEST, manifest.model_dump_json(indent=2))
            archive.add(images, IMAGES)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
        images.unlink(missing_ok=True)
    return manifest


def load_stack_file(source: Path, home: Path) -> Manifest:
    """Give the engine the images and `home` the files; `ComposeRuntime.start` brings the stack up from there."""
    engine = require_engine()
    with _opened(source) as archive:
        manifest = _read_manifest(archive, source)
        images = home / f".{IMAGES}"
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            _extract(archive, IMAGES, images)
            run_program(("docker", "load", "--quiet", "--input", str(images)), env=docker_environ(engine.host))
        finally:
            images.unlink(missing_ok=True)
    overrides = {str(home / "overrides" / Path(name).name): text for name, text in manifest.overrides.items()}
    for path, text in overrides.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text, "utf-8")
    write_saved(Layout(home.resolve()), manifest.plan, _state(manifest, home, tuple(overrides)))
    return manifest


def _state(manifest: Manifest, home: Path, overrides: tuple[str, ...]) -> State:
    project = Layout(home.resolve()).project_of(manifest.plan)
    return State(project=project, overrides=overrides, images=manifest.images, base_image=manifest.base_image)


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, "r:") as archive:
            yield archive
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"{source} cannot be read as a saved stack: {error}", "gym save -o FILE writes one.") from None


def _read_manifest(archive: tarfile.TarFile, source: Path) -> Manifest:
    try:
        with _member(archive, MANIFEST) as file:
            return Manifest.model_validate_json(file.read())
    except (KeyError, ValidationError) as error:
        words = "it holds no stack" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise UserError(f"{source} is no saved stack: {words}", "gym save -o FILE writes one.") from None


@contextmanager
def _member(archive: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    with file:
        yield file


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    with _member(archive, name) as file, target.open("wb") as copy:
        while chunk := file.read(1 << 20):
            copy.write(chunk)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
