"""A built stack as one file: its images and its plan, for a machine with no network. Values of secrets stay behind."""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal

from pydantic import ValidationError

from gym.engine import docker_environ, require_engine
from gym.errors import UserError
from gym.files import write_atomically
from gym.labels import stack_option
from gym.plan.model import Plan, Value
from gym.programs import run_program
from gym.render.compose import ROUTER_IMAGE
from gym.runtime.compose.archive_images import add_text, rename_images
from gym.runtime.compose.layout import Layout, State, write_saved
from gym.runtime.compose.reload import refuse_synced
from gym.runtime.compose.secrets import secret_names
from gym.runtime.compose.tar_checks import SuspectTar, open_plain, walk
from gym.runtime.compose.trust import SAFE_NAME, manifest_problems, override_findings, plan_findings

MANIFEST: Final = "gym-stack.json"
IMAGES: Final = "images.tar"
MAX_MANIFEST: Final = 64 << 20


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
        return secret_names(self.plan.model_dump_json())


def save_stack(home: Path, target: Path) -> Manifest:
    """Write a stack that was brought up in `home` to `target`, whole or not at all."""
    layout = Layout(home.resolve())
    plan, state = layout.read_plan(), layout.read_state()
    refuse_synced(layout, state, "an archive")
    if plan is None or not state.base_image:
        raise UserError(f"There is no built stack in {home}.", "Build one first: gym up NAMES")
    manifest = Manifest(
        plan=plan,
        images=state.images,
        base_image=state.base_image,
        router_image=state.router_image,
        overrides={Path(path).name: Path(path).read_text("utf-8") for path in state.overrides},
    )
    engine = require_engine()
    unfinished = target.with_name(f".{target.name}.part")
    images = target.with_name(f".{target.name}.images")
    wanted = sorted({*state.images.values(), state.base_image, state.router_image})
    try:
        run_program(("docker", "save", "--output", str(images), *wanted), env=docker_environ(engine.host))
        with tarfile.open(unfinished, "w") as archive:
            add_text(archive, MANIFEST, manifest.model_dump_json(indent=2))
            archive.add(images, IMAGES)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
        images.unlink(missing_ok=True)
    return manifest


def read_saved(source: Path) -> Manifest:
    """What the file says of itself. Nothing is loaded or written."""
    with _opened(source) as archive:
        manifest = _read_manifest(archive, source)
    if wrong := list(manifest_problems(manifest.plan, manifest.images)):
        raise UserError(f"{source} is not a saved stack: {'; '.join(wrong)}", "gym save -o FILE writes one.")
    return manifest


def describe_saved(manifest: Manifest) -> list[str]:
    """What a load will run, a line each."""
    lines = [
        f"{one.name}: {manifest.images[one.name]} ({one.launch}, {one.replicas}x)" for one in manifest.plan.services
    ]
    lines += [f"{one.name}: {manifest.images[one.name]} (service)" for one in manifest.plan.sidecars]
    lines += [f"merges the Compose file {name}" for name in manifest.overrides]
    return lines + [f"gives the secret {name}" for name in manifest.secrets]


def find_loosened(manifest: Manifest) -> list[str]:
    """What is not known to keep a container in its bounds."""
    overrides = [one for name, text in manifest.overrides.items() for one in override_findings(name, text)]
    return [*plan_findings(manifest.plan, manifest.base_image), *overrides]


def load_stack_file(source: Path, home: Path, *, stack: str = "", trust: bool = False) -> Manifest:
    """Give the engine the images and `home` the files; `ComposeRuntime.start` brings the stack up from there, by the
    name `stack`, or else the one that it had where it was saved.

    Without `trust` a file that loosens what isolates its containers is refused before anything is loaded.
    """
    manifest = read_saved(source)
    if (loosened := find_loosened(manifest)) and not trust:
        listed = "\n".join(f"  {one}" for one in loosened)
        raise UserError(
            f"{source} asks for more than a stack of its own needs:\n{listed}",
            "The author of the file gets these rights on this machine."
            f" If you trust the author, add --trust: gym load {shlex.quote(str(source))} --trust{stack_option(stack)}",
        )
    engine = require_engine()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    images = home / f".{IMAGES}"
    wanted = frozenset({*manifest.images.values(), manifest.base_image, manifest.router_image})
    try:
        with _opened(source) as archive, _member(archive, IMAGES) as file, images.open("wb") as copy:
            renamed = rename_images(file, copy, wanted, str(home.resolve()))
        run_program(("docker", "load", "--quiet", "--input", str(images)), env=docker_environ(engine.host))
    except KeyError:
        raise UserError(f"{source} is not a saved stack: it holds no images", "gym save -o FILE writes one.") from None
    finally:
        images.unlink(missing_ok=True)
    overrides = _write_overrides(home / "overrides", manifest.overrides)
    plan = manifest.plan.model_copy(update={"stack": stack or manifest.plan.stack})
    manifest = manifest.model_copy(update={"plan": plan})
    write_saved(Layout(home.resolve()), manifest.plan, _state(manifest, home, overrides, renamed))
    return manifest


def _write_overrides(folder: Path, texts: Mapping[str, str]) -> tuple[str, ...]:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, text in texts.items():
        if not SAFE_NAME.fullmatch(name):
            raise UserError(f"{name!r} is not a name of an override file", "gym save -o FILE writes a new one.")
        write_atomically(folder / name, text)
    return tuple(str(folder / name) for name in texts)


def _state(manifest: Manifest, home: Path, overrides: tuple[str, ...], renamed: Mapping[str, str]) -> State:
    return State(
        project=Layout(home.resolve()).project_of(manifest.plan),
        overrides=overrides,
        images={name: renamed[image] for name, image in manifest.images.items()},
        base_image=renamed[manifest.base_image],
        router_image=renamed[manifest.router_image],
    )


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with source.open("rb") as file, open_plain(file) as archive:
            yield archive
    except (OSError, tarfile.TarError, SuspectTar) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(f"{source} cannot be read as a saved stack: {reason}", "gym save -o FILE writes one.") from None


def _read_manifest(archive: tarfile.TarFile, source: Path) -> Manifest:
    try:
        with _member(archive, MANIFEST) as file:
            return Manifest.model_validate_json(file.read(MAX_MANIFEST))
    except (KeyError, ValidationError) as error:
        words = "it holds no stack" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise UserError(f"{source} is not a saved stack: {words}", "gym save -o FILE writes one.") from None


@contextmanager
def _member(archive: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    member = next((one for one in walk(archive, len((MANIFEST, IMAGES))) if one.name == name), None)
    file = archive.extractfile(member) if member is not None and member.isreg() else None
    if file is None:
        raise KeyError(name)
    with file:
        yield file
