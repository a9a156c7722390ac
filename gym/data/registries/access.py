"""What a user set to reach registries: keys of env.yaml, else the variables that the registries' own clients read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gym.errors import UserError

# key of env.yaml -> the variable that stands in for it
VARIABLES: Final = {
    "hf_token": "HF_TOKEN",
    "hf_endpoint": "HF_ENDPOINT",
    "hf_organization": "",
    "hf_collection_name": "",
    "hf_collection_slug": "",
    "hf_dataset_prefix": "",
    "mlflow_tracking_uri": "MLFLOW_TRACKING_URI",
    "mlflow_tracking_token": "MLFLOW_TRACKING_TOKEN",
}
PREFIX: Final = "Nemotron-RL"  # of names on a hub, unless `hf_dataset_prefix` says otherwise


@dataclass(frozen=True)
class Access:
    """Secrets stay out of its repr."""

    hf_token: str = field(default="", repr=False)
    hf_endpoint: str = ""
    hf_organization: str = ""
    hf_collection_name: str = ""
    hf_collection_slug: str = ""
    hf_dataset_prefix: str = PREFIX
    mlflow_tracking_uri: str = ""
    mlflow_tracking_token: str = field(default="", repr=False)

    @property
    def collection(self) -> str:
        """The hub's own name of a collection, ORG/NAME-SLUG; "" where none is set."""
        if not (self.hf_collection_name or self.hf_collection_slug):
            return ""
        organization, name = self.require("hf_organization"), self.require("hf_collection_name")
        return f"{organization}/{name}-{self.require('hf_collection_slug')}"

    def require(self, key: str) -> str:
        value = str(getattr(self, key))
        if not value:
            raise UserError(f"`{key}` is not set", how_to_set(key))
        return value


def read_access(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Access:
    """`settings`: the top level of the configuration, which env.yaml is merged into."""
    found: dict[str, str] = {}
    for key, variable in VARIABLES.items():
        value = settings.get(key)
        if value is not None and not isinstance(value, (str, int, float)):
            raise UserError(f"`{key}` must be a text", how_to_set(key))
        if value is not None:
            found[key] = str(value).strip()
        elif environ.get(variable):
            found[key] = environ[variable].strip()
    for key in ("hf_endpoint", "mlflow_tracking_uri"):
        if found.get(key):
            found[key] = _checked_url(key, found[key])
    return Access(**found)


def how_to_set(key: str) -> str:
    variable = VARIABLES[key]
    return f"Write `{key}: ...` into env.yaml of this folder" + (f", or set {variable}." if variable else ".")


def _checked_url(key: str, text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"`{key}` is not the URL of a server: http:// or https:// and a host", how_to_set(key))
    if parts.username or parts.password:
        raise UserError(f"`{key}` has a user or a password in it", "Leave them out; a token has a key of its own.")
    return text.rstrip("/")
