"""What `gym list` prints; no parser is loaded for it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from gym.cli import console
from gym.cli.catalog_page import WIDE, CatalogFilter, check_domain, entry_table, servers_to_markdown
from gym.config import list_servers, search_roots

EVERYTHING = CatalogFilter()


def show(wanted: CatalogFilter = EVERYTHING, *, markdown: bool = False, as_json: bool = False) -> int:
    everything = list_servers(search_roots(Path.cwd(), os.environ))
    check_domain(wanted.domain, everything)
    servers = [one for one in everything if wanted.fits(one)]
    if as_json:
        console.show_json([asdict(one) for one in servers])
    elif markdown:
        console.show_raw(servers_to_markdown(servers))
    elif not servers:
        where = "No servers here: go to a checkout, or name folders in GYM_PATH."
        console.note("No server is all of that." if any(wanted) else where)
    else:
        terminal = console.out()
        columns, rows = entry_table(servers, terminal.width if terminal.is_terminal else None)
        console.show_table(columns, rows)
        if terminal.is_terminal and terminal.width < WIDE:
            console.note("\nA wider terminal shows domains and licences.")
        console.note("\nMore about one: gym info NAME. Start some: gym up NAME [NAME...]")
    return 0
