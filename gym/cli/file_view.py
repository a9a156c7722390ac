"""Files shown on a terminal: a README without empty space, code of which nothing is cut off unseen."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, TableElement
from rich.syntax import Syntax
from rich.table import Table


def readme(text: str) -> Markdown:
    return _Readme(text.rstrip())


def code(text: str, language: str) -> Syntax:
    return Syntax(text.rstrip(), language, background_color="default", word_wrap=True)


class _Title(Heading):
    LEVEL_ALIGN = {**Heading.LEVEL_ALIGN, "h1": "left"}


class _Facts(TableElement):
    """A table whose head is blank is a list of facts."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self.header.row if self.header is not None else None
        if self.body is None or (head is not None and any(cell.content.plain.strip() for cell in head.cells)):
            yield from super().__rich_console__(console, options)
            return
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for row in self.body.rows:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Readme(Markdown):
    elements = {**Markdown.elements, "heading_open": _Title, "table_open": _Facts}
