"""`gym lock`: what a stack is made of, to the digest (images, versions, data sets), and insisting on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from gym.errors import ProgramFailed, UserError
from gym.plan.model import Plan, Service, Value
from gym.render.files import write_atomically
from gym.runtime.compose.engine import docker_environ
from gym.runtime.programs import run_program

if TYPE_CHECKING:
    import docker

MISSING: Final = "missing"


class Locked(Value):
    image: str
    id: str  # the image's own digest: of its layers and its configuration
    requirements: tuple[str, ...] = ()  # `name==version`, as installed


class Lock(Value):
    """The file: a person reads it in a diff, `gym up --locked` insists on it."""

    format: Literal["gym-lock"] = "gym-lock"
    version: Literal[1] = 1
    instances: dict[str, Locked]
    datasets: dict[str, str]  # path as written -> sha256


def make_lock(
    client: docker.DockerClient, host: str, plan: Plan, images: Mapping[str, str], roots: tuple[Path, ...]
) -> Lock:
    """Of a stack whose images are built."""
    ids = image_ids(client)
    instances = {
        one.name: Locked(
            image=images[one.name],
            id=ids.get(images[one.name], MISSING),
            requirements=_installed(images[one.name], host) if one.launch != "image" else (),
        )
        for one in plan.services
    }
    return Lock(instances=instances, datasets=dataset_digests(plan, roots))


def write_lock(path: Path, lock: Lock) -> bool:
    return write_atomically(path, lock.model_dump_json(indent=2) + "\n", mode=0o644)


def read_lock(path: Path) -> Lock:
    try:
        return Lock.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.", "gym lock writes it.") from None
    except ValidationError as error:
        raise UserError(f"{path} is no lock file: {error.errors()[0]['msg']}.", "gym lock writes it anew.") from None


def check_lock(
    lock: Lock, client: docker.DockerClient, plan: Plan, images: Mapping[str, str], roots: tuple[Path, ...]
) -> None:
    """Every difference at once, before anything is built or started."""
    ids = image_ids(client)
    found = {one.name: (images[one.name], ids.get(images[one.name], MISSING)) for one in plan.services}
    data = dataset_digests(plan, roots)
    wrong = [*_image_differences(lock, found), *_data_differences(lock, data)]
    if wrong:
        raise UserError(
            "The stack is not what the lock says:\n" + "\n".join(f"  {line}" for line in wrong),
            "Bring back what was locked (gym load FILE, docker pull), or lock what there is now: gym lock",
        )


def dataset_digests(plan: Plan, roots: tuple[Path, ...]) -> dict[str, str]:
    """Of every data set that an instance names and that is on this disk."""
    paths = sorted({path for one in plan.services for path in _dataset_paths(one)})
    return {path: _digest(found) if (found := _find(path, roots)) else MISSING for path in paths}


def image_ids(client: docker.DockerClient) -> dict[str, str]:
    listed: list[dict[str, Any]] = client.api.images()
    return {tag: one["Id"] for one in listed for tag in one.get("RepoTags") or ()}


def _image_differences(lock: Lock, found: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name in sorted({*lock.instances, *found}):
        wanted, there = lock.instances.get(name), found.get(name)
        if wanted is None:
            yield f"{name}: not in the lock"
        elif there is None:
            yield f"{name}: in the lock, but not in this stack"
        elif there[0] != wanted.image:
            yield f"{name}: its sources, requirements or base changed ({wanted.image} was locked, now {there[0]})"
        elif there[1] != wanted.id:
            state = (
                "is not on this engine" if there[1] == MISSING else f"is {there[1][:19]}, {wanted.id[:19]} was locked"
            )
            yield f"{name}: the image {wanted.image} {state}"


def _data_differences(lock: Lock, found: Mapping[str, str]) -> Iterator[str]:
    for path in sorted({*lock.datasets, *found}):
        wanted, there = lock.datasets.get(path), found.get(path)
        if wanted != there:
            yield f"{path}: " + ("the data set changed" if wanted and there else "in one of lock and stack only")


def _installed(image: str, host: str) -> tuple[str, ...]:
    argv = ("docker", "run", "--rm", "--network", "none", "--entrypoint", "uv", image, "pip", "freeze")
    try:
        lines = run_program(argv, env=docker_environ(host)).splitlines()
    except ProgramFailed:
        return ()  # an image of the user's own, made without uv
    return tuple(sorted(line for line in lines if line and not line.startswith(("-e", "#"))))


def _dataset_paths(service: Service) -> Iterator[str]:
    listed = service.fields.get("datasets")
    for one in listed if isinstance(listed, (list, tuple)) else ():
        path = one.get("jsonl_fpath") if isinstance(one, Mapping) else None
        if isinstance(path, str) and path:
            yield path


def _find(path: str, roots: tuple[Path, ...]) -> Path | None:
    return next((root / path for root in roots if (root / path).is_file()), None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
