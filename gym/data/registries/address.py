"""How a data set in a registry is named: `hf:ORG/NAME@REVISION`, `gitlab:NAME:VERSION`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from gym.errors import UserError

RegistryName = Literal["huggingface", "gitlab"]
_PREFIXES: Final[dict[str, RegistryName]] = {
    **{"hf": "huggingface", "huggingface": "huggingface"},
    **{"gitlab": "gitlab", "mlflow": "gitlab"},
}
_PART = r"[A-Za-z0-9][\w.-]*"
FORMS: Final = "hf:ORG/NAME, hf:ORG/NAME@REVISION or gitlab:NAME:VERSION"


@dataclass(frozen=True)
class RegistryAddress:
    """A data set; without a name the whole registry, without a version its newest state."""

    registry: RegistryName
    name: str = ""
    version: str = ""  # on a hub the revision

    def __str__(self) -> str:
        if self.registry == "huggingface":
            return f"hf:{self.name}" + (f"@{self.version}" if self.version else "")
        return f"gitlab:{self.name}" + (f":{self.version}" if self.version else "")


def parse_address(text: str) -> RegistryAddress:
    """`ORG/NAME` alone is a hub's. What it is not says which forms there are."""
    prefix, colon, rest = text.partition(":")
    registry = _PREFIXES.get(prefix) if colon else None
    if registry is None and not colon and re.fullmatch(rf"{_PART}/{_PART}(@.+)?", text):
        registry, rest = "huggingface", text
    if registry is None:
        raise UserError(f"{text!r} is not the address of a data set", f"Write {FORMS}.")
    name, _, version = rest.partition("@" if registry == "huggingface" else ":")
    pattern = rf"{_PART}(/{_PART})?" if registry == "huggingface" else r"[^/:@][^/:]*"
    if name and not re.fullmatch(pattern, name):
        raise UserError(f"{text!r}: {name!r} cannot be the name of a data set", f"Write {FORMS}.")
    return RegistryAddress(registry, name, version)


def need_version(address: RegistryAddress) -> RegistryAddress:
    """An address of one version in a model registry."""
    if not (address.name and address.version):
        raise UserError(f"{address}: which version?", f"Write {address.registry}:NAME:VERSION, e.g. gitlab:mcqa:0.0.1.")
    return address


def need_repo(address: RegistryAddress) -> RegistryAddress:
    """An address of one data set on a hub."""
    if "/" not in address.name:
        raise UserError(f"{address}: which data set?", f"Write hf:{address.name or 'ORG'}/NAME.")
    return address
