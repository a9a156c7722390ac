"""Packed environments on this engine: found or pulled, checked, and their folder unpacked once for each content."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final

import orjson

from gym import labels
from gym.config.packed import NOTE, Packed, read_packed
from gym.engine import connect, docker_environ, require_engine
from gym.errors import InfraError, ProgramFailed, UserError
from gym.files import write_atomically
from gym.plan.slugs import slugify
from gym.programs import run_program
from gym.render.pack import FOLDER, PackManifest, read_manifest
from gym.runtime.compose.image_folders import PACKS, UNPACKING, remove_unused_folders, short_id
from gym.runtime.compose.known_images import registry_digests, with_tag
from gym.runtime.compose.tar_checks import SuspectTar, open_plain, walk
from gym.runtime.user_state import owner

if TYPE_CHECKING:
    import docker

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 16 << 30
DENIED: Final = ("denied", "unauthorized", "authentication", "no basic auth", "forbidden")
ABSENT: Final = ("manifest unknown", "not found", "name unknown")
OTHER_PLATFORM: Final = ("no matching manifest", "does not provide the specified platform")


def open_image(reference: str, cache: Path, *, fetch: bool = False) -> Path:
    """The root that the image's folder was unpacked to; what is not here is pulled; with `fetch` it is pulled again.

    What a digest names and is here cannot be another in the registry: it is not asked for.
    """
    engine = require_engine()
    with connect(engine.host) as client:
        if (fetch and "@sha256:" not in reference) or not _is_here(client, reference):
            pull_image(reference, engine.host)
        facts = _inspect(client, reference)
        manifest = _manifest(client, reference, facts)
        root = _root(cache, facts["Id"])
        if not (root / NOTE).is_file():
            remove_unused_folders(cache, client)
            _unpack(client, facts["Id"], root, reference)
        name, tag = f"gym-pack-{slugify(manifest.name)}", short_id(facts["Id"])
        client.api.tag(facts["Id"], name, tag)
        _write_note(root, manifest, reference, facts, f"{name}:{tag}")
        (root / NOTE).touch()  # when it was used last
    return root


def read_pack(reference: str) -> tuple[PackManifest, str]:
    """Of an image that is on this engine, with its digest; nothing is pulled or unpacked."""
    with connect(require_engine().host) as client:
        if not _is_here(client, reference):
            raise UserError(f"There is no image {reference} here.", f"Make it: gym pack NAME -t {reference}")
        facts = _inspect(client, reference)
        return _manifest(client, reference, facts), digest_of_image(facts, reference)


def digest_in_registry(image: str) -> str:
    """Of an image of this engine; "" where it has been in no registry."""
    with connect(require_engine().host) as client:
        return registry_digests(client).get(with_tag(image), "")


def trust_pack(root: Path) -> None:
    """Its configuration may read what it asks for, on this machine."""
    packed = read_packed(root)
    assert packed is not None
    _write(root, replace(packed, trusted=True))


def pull_image(reference: str, host: str) -> None:
    try:
        run_program(("docker", "pull", "--quiet", reference), env=docker_environ(host))
    except ProgramFailed as error:
        raise explain_pull(reference, error.output) from None


def digest_of_image(facts: dict[str, Any], reference: str) -> str:
    """What a registry knows it by, where it came from one or went to one; else what this engine does."""
    repository = reference.partition("@")[0]
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    known = {name.partition("@")[0]: name.partition("@")[2] for name in facts.get("RepoDigests") or ()}
    return known.get(repository) or next(iter(known.values()), str(facts["Id"]))


def explain_pull(reference: str, output: str) -> UserError | InfraError:
    last = (output.strip().splitlines() or ["no answer"])[-1].removeprefix("Error response from daemon: ")
    words, registry = last.lower(), reference.partition("/")[0]
    if any(one in words for one in OTHER_PLATFORM):
        what = f"{reference} cannot be pulled: there is none for this engine's architecture ({last})"
        return UserError(what, "Ask who packed it for one: gym pack, on a machine of this architecture.")
    if any(one in words for one in DENIED):
        hint = f"Log in: docker login {registry if '.' in registry or ':' in registry else ''}".rstrip()
        return UserError(
            f"{reference} cannot be pulled: its registry denies it ({last})", f"{hint}; or check its name."
        )
    if any(one in words for one in ABSENT):
        return UserError(
            f"{reference} cannot be pulled: its registry has no such image ({last})",
            "Check its name and tag; who packed it has to push it: gym push IMAGE",
        )
    return InfraError(
        f"{reference} is not here and cannot be pulled: {last}", "Is the registry up, and its name right?"
    )


def _is_here(client: docker.DockerClient, reference: str) -> bool:
    from docker.errors import NotFound  # noqa: PLC0415 (a tenth of a second, and a client is there by now)

    try:
        _inspect(client, reference)
    except NotFound:
        return False
    return True


def _inspect(client: docker.DockerClient, reference: str) -> dict[str, Any]:
    facts: dict[str, Any] = client.api.inspect_image(reference)  # type: ignore[no-untyped-call]
    return facts


def _manifest(client: docker.DockerClient, reference: str, facts: dict[str, Any]) -> PackManifest:
    version = client.api.version(api_version=False)
    platform = f"{facts['Os']}/{facts['Architecture']}"
    return read_manifest(reference, facts["Config"] or {}, platform, f"{version['Os']}/{version['Arch']}")


def _root(cache: Path, id: str) -> Path:
    return (cache / PACKS / short_id(id)).resolve()


def _write_note(root: Path, manifest: PackManifest, reference: str, facts: dict[str, Any], image: str) -> None:
    before = read_packed(root)
    packed = Packed(
        image=image,
        digest=digest_of_image(facts, reference),
        reference=reference,
        config=manifest.config,
        server=manifest.server,
        gym=manifest.gym,
        services=manifest.services,
        trusted=before is not None and before.trusted,
    )
    for place in (packed.config, packed.server):
        if not (root / place).exists():
            raise UserError(f"{reference} lacks {place}, which its label names.", "Ask who packed it to do so again.")
    _write(root, packed)


def _write(root: Path, packed: Packed) -> None:
    write_atomically(root / NOTE, orjson.dumps(asdict(packed), option=orjson.OPT_INDENT_2).decode())


def _unpack(client: docker.DockerClient, id: str, root: Path, reference: str) -> None:
    """Whole or not at all; a second command at the same time does the same work and finds it done."""
    root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=UNPACKING) as scratch:
        with tempfile.TemporaryFile(dir=scratch) as archive:
            _read_folder(client, id, archive, reference)
            archive.seek(0)
            extract_pack(archive, Path(scratch) / "out", reference)
        (Path(scratch) / "out" / PurePosixPath(FOLDER).name / NOTE).unlink(missing_ok=True)  # ours alone to write
        shutil.rmtree(root, ignore_errors=True)  # without its note: of a command that was cut off
        try:
            (Path(scratch) / "out" / PurePosixPath(FOLDER).name).rename(root)
        except OSError:
            if not root.is_dir():
                raise UserError(f"{reference} has no folder {FOLDER}.", "Ask who packed it to do so again.") from None


def _read_folder(client: docker.DockerClient, id: str, archive: IO[bytes], reference: str) -> None:
    from docker.errors import NotFound  # noqa: PLC0415 (as above)

    with _container(client, id) as container:
        try:
            chunks, _ = client.api.get_archive(container, FOLDER)
        except NotFound:
            raise UserError(f"{reference} has no folder {FOLDER}.", "Ask who packed it to do so again.") from None
        for chunk in chunks:
            if archive.tell() > MAX_BYTES:
                raise _refused(reference, f"it has more than {MAX_BYTES >> 30} GiB")
            archive.write(chunk)


@contextmanager
def _container(client: docker.DockerClient, id: str) -> Iterator[str]:
    """Made to be read from, and never started."""
    made = client.api.create_container(id, command=["true"], labels={labels.OWNER: owner()}, network_disabled=True)
    try:
        yield str(made["Id"])
    finally:
        client.api.remove_container(made["Id"], v=True, force=True)


def extract_pack(archive: IO[bytes], target: Path, reference: str) -> None:
    """Plain files and folders alone, with no other rights than files have: nothing leads out of the folder."""
    try:
        with open_plain(archive) as tar:
            for member in walk(tar, MAX_FILES):
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                tar.extract(member, target, filter="data")
    except (tarfile.TarError, SuspectTar) as error:
        raise _refused(reference, str(error)) from None


def _refused(reference: str, why: str) -> UserError:
    return UserError(f"{reference}: its folder {FOLDER} is refused: {why}.", "Ask who packed it to do so again.")
