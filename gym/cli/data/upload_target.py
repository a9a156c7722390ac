"""Where an upload goes: an address, or the name that a server's data sets have on a hub."""

from __future__ import annotations

import os
from pathlib import Path

from gym.config import find_server, search_roots
from gym.data.registries import Access, RegistryAddress, parse_address
from gym.data.registries.hub_upload import name_repo
from gym.errors import UserError


def find_target(address: str, server: str, name: str, revision: str, access: Access) -> RegistryAddress:
    """`--for SERVER` takes a server's name, or the path of one of its configurations."""
    if bool(address) == bool(server):
        raise UserError("Where to? Give an address or --for SERVER, not both", "e.g. hf:ORG/NAME or gitlab:NAME:0.0.1")
    if address:
        if name or revision:
            raise UserError("--name and --revision are parts of what --for makes", "Write them into the address.")
        return parse_address(address)
    entry = find_server(Path(server).stem, search_roots(Path.cwd(), os.environ))
    return RegistryAddress("huggingface", name_repo(access, entry.domain, name or entry.name), revision)
