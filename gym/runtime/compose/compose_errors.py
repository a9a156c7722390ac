"""What `docker compose` says when it fails -> one paragraph and the next command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gym.errors import GymError, InfraError, ProgramFailed, UserError

POOLS: Final = '{"default-address-pools": [{"base": "10.200.0.0/16", "size": 26}]}'


class ServiceNotReady(InfraError):
    """A service that a server waits for is not healthy: Compose did not start the server."""


def explain(error: ProgramFailed, overrides: tuple[Path, ...]) -> GymError:
    """The engine's complaint in our words; what we do not know is passed on with its last line first."""
    output = error.output
    if found := re.search(r"Bind for (\S+):(\d+) failed: port is already allocated", output):
        return UserError(
            f"Port {found[2]} on {found[1]} is in use by another container.",
            f"docker ps --filter publish={found[2]} shows whose; or choose another port: gym up ... --port 0",
        )
    if re.search(r"(ports are not available|address already in use)", output):
        return UserError(f"The router's port is in use. {_last_line(output)}", "Choose another: gym up ... --port 0")
    if re.search(r"(fully subnetted|non-overlapping IPv4)", output):
        return InfraError(
            "The engine has no addresses left for another network.",
            f"Remove what is not used: gym down --sweep. Or give it more, in its daemon.json: {POOLS}",
        )
    if "no space left on device" in output:
        return InfraError(
            "The engine's disk is full.", "docker system df shows by what; docker builder prune frees the build cache."
        )
    if found := re.search(r"dependency failed to start: (?:container )?(.+)", output):
        return ServiceNotReady(f"A service is not ready: {found[1]}", "gym logs shows why.")
    if "range of CPUs is from" in output:
        return UserError(f"An instance asks for more CPUs than there are. {_last_line(output)}", "Lower its `cpus:`.")
    if "cannot start a paused container" in output:
        return UserError(
            "A container of the stack is paused, and Compose changes nothing then.",
            "gym ps names it: docker unpause NAME, then the same command again.",
        )
    if "Pulling" in output and (names := re.findall(r"(?m)^\s*(?:Image )?(\S+) Error ", output)):
        return InfraError(
            f"No image of {', '.join(sorted(set(names)))} is here, and none can be pulled: {_last_line(output)}",
            "Check the name, log in (docker login), or bring it from a machine with a network: docker save and load.",
        )
    if overrides and not re.search(r"daemon", output, re.IGNORECASE):
        files = ", ".join(str(path) for path in overrides)
        return UserError(
            f"Compose refuses the stack with {files}: {_last_line(output)}",
            "Relative paths in it begin at the stack's own folder, .gym/<stack>/: write absolute ones, or ${PWD}/..."
            if "no such file" in output
            else "Fix that file; `gym render --target compose` prints ours.",
        )
    return error


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
