"""`gym list`: the servers that `gym up` finds by name, from the checkout, the working directory and GYM_PATH."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from gym.cli import console
from gym.cli.catalog_page import WIDE, CatalogFilter, check_domain, entry_table, servers_to_markdown
from gym.cli.options import AsJson
from gym.config import list_servers, search_roots

Type = Annotated[
    Literal["resources", "agent", "model"] | None,
    typer.Option("--type", metavar="resources|agent|model", help="Only these."),
]
Kind = Annotated[
    Literal["rule", "judge", "sandbox", "network", "example"] | None,
    typer.Option("--kind", metavar="rule|judge|sandbox|network|example", help="Only verifiers of this kind."),
]
Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="Only this domain, e.g. math.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the page servers/README.md.")]


def command(
    type_: Type = None, kind: Kind = None, domain: Domain = "", markdown: Markdown = False, as_json: AsJson = False
) -> int:
    """List the servers that can be named."""
    everything = list_servers(search_roots(Path.cwd(), os.environ))
    check_domain(domain, everything)
    wanted = CatalogFilter(type_ or "", kind or "", domain)
    servers = [one for one in everything if wanted.fits(one)]
    if as_json:
        console.show_json([one.model_dump(mode="json") for one in servers])
    elif markdown:
        console.show_raw(servers_to_markdown(servers))
    elif not servers:
        where = "No servers here: go to a checkout, or name folders in GYM_PATH."
        console.note("No server is all of that." if any(wanted) else where)
    else:
        terminal = console.out()
        columns, rows = entry_table(servers, terminal.width if terminal.is_terminal else None)
        console.show(console.make_table(columns, rows, lines=terminal.is_terminal))
        if terminal.is_terminal and terminal.width < WIDE:
            console.note("\nA wider terminal shows domains and licences.")
        console.note("\nMore about one: gym info NAME. Start some: gym up NAME [NAME...]")
    return 0
