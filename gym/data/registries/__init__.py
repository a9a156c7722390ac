"""Where data sets are kept for others: a Hugging Face hub, and the model registry of GitLab or MLflow."""

from gym.data.registries.access import Access, read_access
from gym.data.registries.address import Address, parse_address
from gym.data.registries.base import Change, Entry, Received, Registry, Stored
from gym.data.registries.fetch import choose_place, fetch, open_registry

__all__ = [
    "Access",
    "Address",
    "Change",
    "Entry",
    "Received",
    "Registry",
    "Stored",
    "choose_place",
    "fetch",
    "open_registry",
    "parse_address",
    "read_access",
]
