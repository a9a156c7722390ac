"""Turns an error text of the engine or a registry into an error that says whose fault it is. Pure."""

from __future__ import annotations

import re
from typing import Final

from gym.broker.providers.docker.engine_client import EngineRefused
from gym.errors import GymError, InfraError
from gym.wire.failures import RolloutError

POOLS: Final = '{"default-address-pools": [{"base": "10.200.0.0/16", "size": 26}]}'


class ImageMissing(RolloutError):
    """There is no such image, here or where it would come from: the row's or the config's fault."""

    def __init__(self, message: str) -> None:
        super().__init__("sandbox", message, retryable=False, status=422)


class ImageDenied(ImageMissing):
    """A registry wants a login."""


class ImageBuildFailed(RolloutError):
    """A Dockerfile's own step failed; `log` is its last lines."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__("sandbox", f"{message}\n{log}" if log else message, retryable=False, status=422)
        self.log = log


class RateLimited(InfraError):
    """A registry limits the rate of pulls."""


class NetworkDown(InfraError):
    """A registry cannot be reached."""


class DiskFull(InfraError):
    """The engine's disk is full."""


class BadSpec(RolloutError):
    """The engine cannot make what was asked for; a retry changes nothing."""

    def __init__(self, message: str) -> None:
        super().__init__("sandbox", message, retryable=False, status=422)


def explain_pull(image: str, words: str) -> GymError:
    """A pull that failed."""
    if full := explain_disk(words):
        return full
    if re.search(r"toomanyrequests|rate limit|too many requests|\b429\b", words, re.IGNORECASE):
        return RateLimited(
            f"The registry of {image} refuses more pulls for now: {words}",
            f"Log in for a higher limit (docker login), or fetch it beforehand: docker pull {image}",
        )
    if re.search(r"denied|unauthorized|authentication required|no basic auth|\b40[13]\b", words, re.IGNORECASE):
        return ImageDenied(
            f"{image} is not on this machine, and its registry does not give it without a login: {words}\n"
            f"Check its name, or log in where the broker runs: docker login {_registry(image)}"
        )
    if re.search(r"not found|manifest unknown|unknown manifest|no such image|\b404\b", words, re.IGNORECASE):
        return ImageMissing(
            f"There is no image {image} on this machine or in its registry: {words}\n"
            f"Check its name and tag: docker manifest inspect {image}"
        )
    if re.search(r"no matching manifest|platform", words, re.IGNORECASE):
        return ImageMissing(f"{image} does not exist for this machine's kind of processor: {words}")
    if re.search(r"dial tcp|timeout|no route|connection refused|lookup|TLS|EOF|unreachable", words, re.IGNORECASE):
        return NetworkDown(
            f"The registry of {image} cannot be reached: {words}",
            f"Check the machine's network and proxy; an image made here needs no registry: docker images {image}",
        )
    return InfraError(f"{image} could not be pulled: {words}", f"See what Docker says: docker pull {image}")


def explain_create(error: EngineRefused, image: str) -> GymError:
    """A container that could not be made or started: the task's fault where it is, else the engine's."""
    words = error.words
    if full := explain_disk(words):
        return full
    if found := re.search(r"unable to find (user|group) ([^:\s]+)", words):
        return BadSpec(f"There is no {found[1]} {found[2]} in {image}: name one of its /etc/passwd, or a number.")
    if re.search(r"fully subnetted|non-overlapping IPv4", words):
        return InfraError(
            "The engine has no addresses left for another network.",
            f"Remove unused networks: gym down --sweep. Or give it more addresses, in its daemon.json: {POOLS}",
        )
    if found := re.search(r"(?:unknown or invalid runtime name|[Uu]nknown runtime specified)[: ]*(\S+)", words):
        return BadSpec(f"The engine has no runtime {found[1]}; leave `runtime` out, or install it and name it there.")
    if re.search(r"exec format error", words):
        return BadSpec(f"{image} is made for another kind of processor than this machine's.")
    if re.search(r"[Mm]inimum memory limit|range of CPUs|not a directory|invalid reference format", words):
        return BadSpec(f"A sandbox from {image} cannot be made so: {words}")
    return error


def explain_disk(words: str) -> InfraError | None:
    if not re.search(r"no space left on device|disk quota exceeded", words, re.IGNORECASE):
        return None
    return DiskFull(
        f"The engine's disk is full: {words[:400]}",
        "docker system df shows by what; docker builder prune frees the build cache.",
    )


def _registry(image: str) -> str:
    first = image.partition("/")[0]
    return first if "." in first or ":" in first or first == "localhost" else ""
