"""`gym lock`: what a stack is made of, to the digest (images, versions, data sets), and insisting on it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from gym.config import portable_requirements
from gym.engine import docker_environ
from gym.errors import GymError, ProgramFailed, UserError
from gym.files import write_atomically
from gym.plan.model import Plan, Service, Sidecar, Value
from gym.programs import run_program
from gym.render.bake import BuildTarget, StackImages
from gym.render.compose import ROUTER_IMAGE
from gym.runtime.compose.image_sources import context_of, digest_file, python_image, requirements_of
from gym.runtime.compose.known_images import image_ids, labels_of_images, registry_digests, repository_of, with_tag
from gym.runtime.compose.pins import LABEL_LOCKED, Pins, hash_requirements

if TYPE_CHECKING:
    import docker

MISSING: Final = "missing"
PULL_SECONDS: Final = 600.0
LAST_WORDS: Final = 500


class Locked(Value):
    image: str
    id: str  # the image's own digest: of its layers and its configuration
    digest: str = ""  # that its registry knows it by, of an image that is not built here
    requirements: tuple[str, ...] = ()  # `name==version`, as installed
    hashed: tuple[str, ...] = ()  # lines of a requirements file with hashes, where the server has requirements


class Lock(Value):
    """The file: a person reads it in a diff, `gym up --locked` insists on it."""

    format: Literal["gym-lock"] = "gym-lock"
    version: Literal[1] = 1
    instances: dict[str, Locked]
    services: dict[str, Locked] = {}  # what runs beside them: "shop.redis"
    bases: dict[str, str] = {}  # images that are taken by their tag -> the digest that was behind it
    datasets: dict[str, str]  # path as written -> sha256


def make_lock(
    client: docker.DockerClient,
    host: str,
    plan: Plan,
    images: Mapping[str, str],
    roots: tuple[Path, ...],
    cache: Path,
    on_unhashed: Callable[[str, str], None] = lambda *_: None,
) -> Lock:
    """Of a stack whose images are built. `on_unhashed` gets each instance without hashes, and why: the index that
    they are asked of may be out of reach."""
    ids, digests = image_ids(client), registry_digests(client)
    instances = {}
    for one in plan.services:
        image = images[one.name]
        installed = _installed(image, host) if one.launch != "image" else ()
        hashed: tuple[str, ...] = ()
        try:
            hashed = _hashed(one, image, host, installed, cache)
        except (ProgramFailed, UserError) as error:
            on_unhashed(one.name, _last_words(error))
        digest = digests.get(with_tag(image), "") if one.container.image else ""
        found = ids.get(with_tag(image), MISSING)
        instances[one.name] = Locked(image=image, id=found, digest=digest, requirements=installed, hashed=hashed)
    services = {one.name: _locked_sidecar(one, images[one.name], ids, digests) for one in plan.sidecars}
    datasets = dataset_digests(plan, roots)
    return Lock(instances=instances, services=services, bases=base_digests(client), datasets=datasets)


def _locked_sidecar(sidecar: Sidecar, image: str, ids: Mapping[str, str], digests: Mapping[str, str]) -> Locked:
    digest = digests.get(with_tag(image), "") if sidecar.spec.image else ""
    return Locked(image=image, id=ids.get(with_tag(image), MISSING), digest=digest)


def write_lock(path: Path, lock: Lock) -> bool:
    return write_atomically(path, lock.model_dump_json(indent=2) + "\n", mode=0o644)


def read_lock(path: Path) -> Lock:
    try:
        return Lock.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}.", "gym lock writes it.") from None
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        raise UserError(f"{path} is not a lock file: {why}.", "gym lock writes a new one.") from None


def check_lock(
    lock: Lock, client: docker.DockerClient, plan: Plan, images: StackImages, roots: tuple[Path, ...], *, pinned: bool
) -> None:
    """Every difference at once, before anything is built or started. What is missing is not a difference where it can
    be built from the lock alone. `pinned`: the Python image that the lock names is here, whatever its tag is by now."""
    ids, marks = image_ids(client), labels_of_images(client, LABEL_LOCKED)
    wanted_marks = {one.tag: one.labels.get(LABEL_LOCKED, "") for one in images.targets}
    found = {}
    locked = {**lock.instances, **lock.services}
    for name in (*(one.name for one in plan.services), *(one.name for one in plan.sidecars)):
        tag = images.by_instance[name]
        there, mark = ids.get(with_tag(tag), MISSING), wanted_marks.get(tag, "")
        from_lock = bool(mark) and (there == MISSING or marks.get(tag) == mark)
        known = locked.get(name)
        found[name] = (tag, known.id if from_lock and known else there)
    bases = base_digests(client)
    here = {name: digest for name, digest in bases.items() if not (pinned and name == python_image())}
    wrong = [
        *_base_differences(lock, here),
        *_image_differences(locked, found),
        *_data_differences(lock, dataset_digests(plan, roots)),
    ]
    if wrong:
        raise UserError(
            "The stack is not what the lock says:\n" + "\n".join(f"  {line}" for line in wrong),
            "Bring back what was locked (gym load FILE, docker pull), or lock what there is now: gym lock",
        )


def fetch_locked(lock: Lock, client: docker.DockerClient, host: str) -> None:
    """Images that are not built here and are missing, under their names: what the lock says, whatever the names mean by
    now. One that cannot be had is a difference."""
    there = image_ids(client)
    known = [(with_tag(one.image), one.digest) for one in {**lock.instances, **lock.services}.values()]
    for name, digest in (*known, (ROUTER_IMAGE, lock.bases.get(ROUTER_IMAGE, MISSING))):
        if digest in ("", MISSING) or name in there:
            continue
        by_digest = f"{repository_of(name)}@{digest}"
        with suppress(ProgramFailed):
            run_program(("docker", "pull", "--quiet", by_digest), env=docker_environ(host), timeout=PULL_SECONDS)
            run_program(("docker", "tag", by_digest, name), env=docker_environ(host))


def pins_of(lock: Lock, client: docker.DockerClient, host: str, *, fetch: bool) -> Pins | None:
    """How images are built as the lock says; None where its Python image cannot be had: then nothing can be. Without
    `fetch` nothing is to be built, and no registry is asked."""
    name = python_image()
    digest = lock.bases.get(name, MISSING)
    reference = "" if digest == MISSING else _pinned(name, digest, client, host) if fetch else name
    hashed = {instance: one.hashed for instance, one in lock.instances.items() if one.hashed}
    return Pins(reference, digest, hashed) if reference else None


def _pinned(name: str, digest: str, client: docker.DockerClient, host: str) -> str:
    """By its digest where a registry gave it one; one that was loaded has none, and is known by its own id."""
    by_digest = f"{repository_of(name)}@{digest}"
    listed: list[dict[str, Any]] = client.api.images()
    if any(known.endswith(f"@{digest}") for one in listed for known in one.get("RepoDigests") or ()):
        return by_digest
    if image_ids(client).get(name) == digest:
        return name
    try:
        run_program(("docker", "pull", "--quiet", by_digest), env=docker_environ(host), timeout=PULL_SECONDS)
    except ProgramFailed:
        return ""
    return by_digest


def check_installed(lock: Lock, plan: Plan, images: Mapping[str, str], built: Collection[str], host: str) -> None:
    """Of what was built from the lock just now."""
    for one in plan.services:
        if images[one.name] not in built:
            continue
        wanted, found = set(lock.instances[one.name].requirements), set(_installed(images[one.name], host))
        if wanted != found:
            other = ", ".join(sorted(wanted ^ found)[:5])
            raise UserError(
                f"{one.name}: what was built from the lock holds other packages than were locked: {other}",
                "Lock what there is now: gym lock",
            )


def dataset_digests(plan: Plan, roots: tuple[Path, ...]) -> dict[str, str]:
    """Of every data set that an instance names and that is on this disk."""
    paths = sorted({path for one in plan.services for path in _dataset_paths(one)})
    return {path: digest_file(found) if (found := _find(path, roots)) else MISSING for path in paths}


def base_digests(client: docker.DockerClient) -> dict[str, str]:
    """Of what everything is built from and routed by: as a registry names it, else as this engine does."""
    wanted = (python_image(), ROUTER_IMAGE)
    listed: list[dict[str, Any]] = client.api.images()
    found = {tag: _digest_of(one) for one in listed for tag in one.get("RepoTags") or ()}
    return {name: found.get(name, MISSING) for name in wanted}


def _digest_of(listed: Mapping[str, Any]) -> str:
    """`sha256:…` of the manifest where it came from a registry: the same on each machine."""
    named = next(iter(listed.get("RepoDigests") or ()), "")
    return str(named.partition("@")[2] or listed["Id"])


def is_built_from_lock(client: docker.DockerClient, target: BuildTarget) -> bool:
    return labels_of_images(client, LABEL_LOCKED).get(target.tag) == target.labels.get(LABEL_LOCKED)


def _base_differences(lock: Lock, found: Mapping[str, str]) -> Iterator[str]:
    """A Python image that is not here does not differ: nothing will be built from it, or `image` differences say so.
    The router runs in any case, and its tag may mean another image by now."""
    for name, wanted in sorted(lock.bases.items()):
        there = found.get(name, MISSING)
        if name == ROUTER_IMAGE and there == MISSING != wanted:
            yield f"{name}: is not on this engine and cannot be had by its digest, {wanted[:19]} was locked"
        elif MISSING not in (wanted, there) and wanted != there:
            yield f"{name}: is {there[:19]} here, {wanted[:19]} was locked"


def _image_differences(locked: Mapping[str, Locked], found: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for name in sorted({*locked, *found}):
        wanted, there = locked.get(name), found.get(name)
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


def _hashed(service: Service, image: str, host: str, installed: tuple[str, ...], cache: Path) -> tuple[str, ...]:
    if service.container.image:
        return ()
    context, own = context_of(service)
    requirements, overrides = requirements_of(context)
    if own is not None or not requirements:
        return ()
    version = _in_image(image, host, "python3", "-c", "import platform; print(platform.python_version())").strip()
    named = context / overrides if overrides else None
    asked = portable_requirements(context, contained=True)
    if asked is None:
        return hash_requirements(service, context / requirements, named, installed, version, cache)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "requirements.txt")
        path.write_text("".join(f"{line}\n" for line in asked))
        return hash_requirements(service, path, named, installed, version, cache)


def _last_words(error: GymError) -> str:
    return (error.output if isinstance(error, ProgramFailed) else error.what).strip()[-LAST_WORDS:]


def _installed(image: str, host: str) -> tuple[str, ...]:
    try:
        lines = _in_image(image, host, "uv", "pip", "freeze").splitlines()
    except ProgramFailed:
        return ()  # an image of the user's own, made without uv
    return tuple(sorted(line for line in lines if line and not line.startswith(("-e", "#"))))


def _in_image(image: str, host: str, program: str, *words: str) -> str:
    argv = ("docker", "run", "--rm", "--network", "none", "--entrypoint", program, image, *words)
    return run_program(argv, env=docker_environ(host))


def _dataset_paths(service: Service) -> Iterator[str]:
    listed = service.fields.get("datasets")
    for one in listed if isinstance(listed, (list, tuple)) else ():
        path = one.get("jsonl_fpath") if isinstance(one, Mapping) else None
        if isinstance(path, str) and path:
            yield path


def _find(path: str, roots: tuple[Path, ...]) -> Path | None:
    return next((root / path for root in roots if (root / path).is_file()), None)
