"""`gym list`: the servers that `gym up` finds by name, from the checkout, the working directory and GYM_PATH."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gym.cli.catalog_page import CatalogFilter
from gym.cli.options import AsJson
from gym.cli.pages import list_page

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
    return list_page.show(CatalogFilter(type_ or "", kind or "", domain), markdown=markdown, as_json=as_json)
