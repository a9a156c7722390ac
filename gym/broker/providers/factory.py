"""Makes a provider by its name. Only the provider that is used is imported."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gym.broker.provider import EgressGate, Provider
from gym.errors import InfraError, UserError
from gym.wire.sandbox import ProviderName

STATE: Final = "state"  # of the folder, and all of it that may be written where the broker is a container
IMAGE_USE: Final = "images.json"  # which images are the provider's to remove, and when each was last used


def make_provider(
    name: ProviderName, folder: Path, options: Mapping[str, Any], *, gate: EgressGate | None = None
) -> Provider:
    """`folder` is where it keeps what it has to remember; `options` are its own. Nothing is opened.

    Without a `gate` it makes no sandbox with `network: {allow: [...]}`.
    """
    try:
        return _make(name if name != "auto" else choose_provider(), folder, options, gate)
    except TypeError as error:
        raise UserError(
            f"the sandbox provider `{name}` has no such option: {error}", "Fix `sandbox_settings.options`."
        ) from None


def choose_provider() -> ProviderName:
    """The best that this machine has; never the one that isolates nothing."""
    from gym.engine import find_engine  # noqa: PLC0415

    if not isinstance(find_engine(), InfraError):
        return "docker"
    if shutil.which("bwrap"):
        return "bubblewrap"
    raise InfraError(
        "no container engine answers and bubblewrap is not installed: there is nothing to make sandboxes with",
        "Install bubblewrap, or switch on what isolates nothing by name: --sandbox-provider subprocess",
    )


def _make(name: ProviderName, folder: Path, options: Mapping[str, Any], gate: EgressGate | None) -> Provider:
    if name == "docker":
        from gym.broker.providers.docker.docker_provider import Docker  # noqa: PLC0415

        return Docker(image_use=folder / STATE / IMAGE_USE, gate=gate, **options)
    if name == "kubernetes":
        from gym.broker.providers.kubernetes.kubernetes_provider import Kubernetes  # noqa: PLC0415

        return Kubernetes(gate=gate, **options)
    from gym.broker.providers.local import Bubblewrap, Subprocess  # noqa: PLC0415

    if name == "subprocess":
        return Subprocess(folder, isolates_nothing=True, **options)  # only by name: `auto` never chooses it
    return Bubblewrap(folder, gate=gate, **options)
