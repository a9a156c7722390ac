"""Building and pulling images; a failure is the last lines of the one image that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from gym.engine import docker_environ
from gym.errors import InfraError, ProgramFailed, UserError
from gym.files import write_atomically
from gym.plan.model import Plan
from gym.programs import run_program
from gym.render.bake import BuildTarget, StackImages, render_bake
from gym.runtime.compose.image_sources import ENV_PYTHON_IMAGE
from gym.runtime.compose.known_images import with_tag
from gym.runtime.interpreters import explain_python

LAST_LINES: Final = 20
STEP: Final = re.compile(r"^#(?P<step>\d+) (?P<rest>.*)$")
FAILED: Final = re.compile(r"^#(?P<step>\d+) ERROR: (?P<why>.*)$")
TITLE: Final = re.compile(r"^#(?P<step>\d+) \[(?:(?P<target>[a-z0-9_-]+) )?(?:[^\]]*)\] (?P<what>.*)$")
NO_SPACE: Final = "no space left on device"
PROGRAMS: Final = r"(?:\w+-linux-\w+-)?(gcc|g\+\+|cc|c\+\+|clang|gfortran|cargo|rustc|cmake|make|ninja|\w+[-_]config)"
NO_PROGRAM: Final = re.compile(  # as setuptools says it, Python on Debian, a compiler, uv
    rf"command '{PROGRAMS}' failed: No such file|No such file or directory: '{PROGRAMS}'"
    r"|fatal error: ([\w./+-]+): No such file|(Git) executable not found"
)


class ServerBuildFailed(InfraError):
    """One image could not be built: which, at which instruction, and its last words."""

    def __init__(self, image: str, instruction: str, words: str) -> None:
        what = f"{image}: its image could not be built; this step failed: {instruction}\n{words}"
        super().__init__(what, _advice(words))
        self.image = image


def build_missing(
    images: StackImages,
    present: frozenset[str],
    *,
    host: str,
    folder: Path,
    secrets: Mapping[str, str],
    on_build: Callable[[tuple[str, ...]], None],
) -> tuple[str, ...]:
    """Build what is not there: the base first, then all servers at once. The tags that were built."""
    missing = [one for one in images.targets if one.tag not in present]
    base = [] if images.base in present else [images.base_target]
    for targets in (base, missing):
        if targets:
            on_build(tuple(one.name for one in targets))
            bake_images(targets, host, folder, secrets)
    return tuple(one.tag for one in (*base, *missing))


def pull_missing(plan: Plan, router: str, present: frozenset[str], host: str) -> None:
    """Images that we do not build must come from a registry; the error names the instance whose image is not there."""
    wanted = {one.container.image: one.name for one in plan.services if one.container.image}
    wanted |= {one.spec.image: one.name for one in plan.sidecars if one.spec.image}
    for image, name in {router: "router", **wanted}.items():
        if with_tag(image) in present:
            continue
        try:
            run_program(("docker", "pull", "--quiet", image), env=docker_environ(host))
        except ProgramFailed as error:
            words = error.output.strip().splitlines()[-1:] or ["no answer"]
            raise UserError(
                f"{name}: the image {image} is not here and cannot be pulled: {words[0]}",
                "No registry can be reached? scripts/airgap makes the router's image."
                if name == "router"
                else "Check its name, or log in: docker login",
            ) from None


def push_images(tags: Iterable[str], prefix: str, host: str) -> tuple[str, ...]:
    """Each under `prefix` beside its own name: `registry.example.org/team` + `gym-mcqa:0123` -> one reference."""
    pushed = []
    for tag in tags:
        reference = f"{prefix.rstrip('/')}/{tag}"
        run_program(("docker", "tag", tag, reference), env=docker_environ(host))
        push_image(reference, host)
        pushed.append(reference)
    return tuple(pushed)


def push_image(reference: str, host: str) -> None:
    try:
        run_program(("docker", "push", "--quiet", reference), env=docker_environ(host))
    except ProgramFailed as error:
        words = error.output.strip().splitlines()[-1:] or ["no answer"]
        raise UserError(f"{reference} cannot be pushed: {words[0]}", "Log in: docker login") from None


def _advice(words: str) -> str:
    if NO_SPACE in words:
        return "Free some: docker system df, docker builder prune"
    if found := NO_PROGRAM.search(words):
        missing = next(one for one in found.groups() if one).replace("Git", "git")
        return f"The image has no {missing}: name its Debian package in apt.txt, beside the server's requirements.txt."
    return "Fix it and run the same command again; images that were built stay."


def _explained(failure: ServerBuildFailed) -> InfraError | UserError:
    """uv's words about Python, which are many, in one sentence."""
    hint = f"uv could not fetch it; {ENV_PYTHON_IMAGE}=IMAGE takes another base, such as one of that version."
    return explain_python(str(failure), server=failure.image, hint=hint) or failure


def bake_images(targets: Iterable[BuildTarget], host: str, folder: Path, secrets: Mapping[str, str]) -> None:
    wanted = list(targets)
    document = folder / ("docker-bake.base.json" if wanted[0].name == "base" else "docker-bake.json")
    write_atomically(document, render_bake(wanted, secrets))
    argv = ("docker", "buildx", "bake", "--file", str(document), "--load", "--progress", "plain")
    try:
        run_program(argv, cwd=folder, env=docker_environ(host))
    except ProgramFailed as error:
        raise _explained(explain_failure(error.output, [one.name for one in wanted])) from None


def explain_failure(output: str, targets: list[str]) -> ServerBuildFailed:
    """Plain progress of bake, many builds mixed -> the step that failed and its own output."""
    lines = output.splitlines()
    failed = next(
        (found for line in lines if (found := FAILED.match(line)) and "cancel" not in found["why"].lower()), None
    )
    named = next((found[1] for line in lines if (found := re.match(r"^(?:ERROR: )?target ([\w-]+): failed", line))), "")
    if failed is None:
        words = [line for line in lines if line and not STEP.match(line)] or lines
        return ServerBuildFailed(named or ", ".join(targets), "reading the Dockerfile", "\n".join(words[-LAST_LINES:]))
    titles = (TITLE.match(line) for line in lines if line.startswith(f"#{failed['step']} ["))
    title = next((found for found in titles if found), None)
    own = (found["rest"] for line in lines if (found := STEP.match(line)) and found["step"] == failed["step"])
    words = [re.sub(r"^\d+\.\d+ ", "", line) for line in own if re.match(r"^\d+\.\d+ ", line)] or [failed["why"]]
    target = named or (title["target"] if title and title["target"] in targets else "") or targets[0]
    return ServerBuildFailed(target, title["what"] if title else "?", "\n".join(words[-LAST_LINES:]))
