"""What a pod's status says: still on its way, running, or why it never will; and whose doing its end was. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gym.broker.errors import Busy
from gym.broker.providers.docker.errors import BadSpec, ImageMissing, explain_pull
from gym.broker.providers.kubernetes.api_client import ApiRefused
from gym.broker.providers.kubernetes.pod_body import CONTAINER
from gym.errors import GymError, InfraError

Pod = Mapping[str, Any]
NEVER: Final = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))
PULLS: Final = frozenset(("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"))
NO_IMAGE: Final = frozenset(("InvalidImageName", "ErrImageNeverPull", "ImageInspectError"))
NO_MEMORY: Final = 70  # the helper's own exit code for it
RETRY_SECONDS: Final = 5.0


class PodEnd(NamedTuple):
    why: str
    own_doing: bool  # what ran in it caused the end


def is_running(pod: Pod) -> bool:
    return any("running" in state for state, _ in _states(pod, "containerStatuses"))


def explain_start(pod: Pod, image: str) -> GymError | None:
    """Why it will not run; None while it may."""
    if (end := explain_end(pod)) is not None:
        return InfraError(f"The sandbox's pod ended before it was used: {end.why}", "kubectl get events -A")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for state, name in _states(pod, kind):
            waiting = state.get("waiting") or {}
            error = _explain_waiting(waiting, image if name == CONTAINER else "the broker's own image")
            if error is not None:
                return error
    return None


def explain_place(pod: Pod) -> str:
    """Why no node has taken it; "" once one has."""
    for one in _status(pod).get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message") or one.get("reason") or "no node takes it")
    return ""


def explain_end(pod: Pod) -> PodEnd | None:
    """None while it lives. By what the policy's own commands used up it is their doing, else the cluster's."""
    status = _status(pod)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason == "Evicted":
        own = bool(re.search(r"exceed\w* .*(ephemeral|emptyDir|local storage|limit)", message))
        return PodEnd(f"the node put it out: {message}", own)
    if reason == "NodeLost":
        return PodEnd(f"its node is lost: {message}", False)
    if reason == "DeadlineExceeded":
        return PodEnd("it lived past its TTL, and no broker ended it", False)
    terminated = [state["terminated"] for state, _ in _states(pod, "containerStatuses") if "terminated" in state]
    if any(ended.get("reason") == "OOMKilled" for ended in terminated):
        return PodEnd("it was ended for memory: it used all of `limits.memory`", True)
    if _lost_target(status):
        return PodEnd("its node is lost or being emptied", False)
    for ended in terminated:
        words = f": {ended['message']}" if ended.get("message") else ""
        code = ended.get("exitCode")
        return PodEnd(f"its first process ended with exit code {code}{words}", code == NO_MEMORY)
    if status.get("phase") in ("Failed", "Succeeded"):
        return PodEnd(": ".join(filter(None, (reason or str(status["phase"]), message))), False)
    return None


def explain_refusal(error: ApiRefused, image: str) -> GymError:
    """A creation that the API refused: the row's fault, a quota, or the cluster's rules."""
    words = error.words
    if "exceeded quota" in words:
        return Busy(f"the namespace of the sandboxes has no room for another one: {words}", RETRY_SECONDS)
    if "violates PodSecurity" in words:
        return InfraError(
            f"The namespace of the sandboxes refuses them: {words}",
            "It takes pods of the level `baseline`: kubectl apply -k on the rendered folder again",
        )
    if found := re.search(r"RuntimeClass(?:\.node\.k8s\.io)? \"([^\"]+)\" not found", words):
        return BadSpec(f"The cluster has no RuntimeClass {found[1]}; leave `runtime` out, or install it.")
    if error.status == 422 or error.reason in ("Invalid", "BadRequest"):
        return BadSpec(f"A sandbox from {image} cannot be made so: {words}")
    return error


def _explain_waiting(waiting: Mapping[str, Any], image: str) -> GymError | None:
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in NO_IMAGE:
        return ImageMissing(f"There is no image {image}: {message or reason}")
    if reason in PULLS:
        error = explain_pull(image, message or reason)
        return error if isinstance(error, ImageMissing) else None  # the node retries it by itself
    if reason in NEVER:
        return BadSpec(f"A sandbox from {image} does not start: {message or reason}")
    return None


def explain_wait(pod: Pod, image: str, seconds: float) -> GymError:
    """It is still not running, after all that time."""
    if place := explain_place(pod):
        return Busy(f"no node of the cluster has room for a sandbox: {place}", RETRY_SECONDS)
    for state, _ in _states(pod, "containerStatuses"):
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in PULLS:
            return explain_pull(image, str(waiting.get("message") or waiting["reason"]))
    return InfraError(f"A sandbox from {image} did not start within {seconds:g} s.", "kubectl get events -A")


def _status(pod: Pod) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod.get("status") or {}
    return found


def _states(pod: Pod, kind: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for one in _status(pod).get(kind) or ():
        yield one.get("state") or {}, str(one.get("name"))


def _lost_target(status: Mapping[str, Any]) -> bool:
    return any(
        one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in status.get("conditions") or ()
    )
