"""Registries of data sets: a Hugging Face hub, and the model registry of GitLab or MLflow."""

from gym.data.registries.access import Access, read_access
from gym.data.registries.address import RegistryAddress, parse_address
from gym.data.registries.fetch import choose_place, fetch, open_registry
from gym.data.registries.registry import Received, Registry, RegistryEntry, Stored, UploadOptions

__all__ = [
    "Access",
    "RegistryAddress",
    "UploadOptions",
    "RegistryEntry",
    "Received",
    "Registry",
    "Stored",
    "choose_place",
    "fetch",
    "open_registry",
    "parse_address",
    "read_access",
]
