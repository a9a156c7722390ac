"""Files shown on a terminal: a README without empty space, code and rows of which nothing is cut off unseen."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, TableElement
from rich.syntax import Syntax
from rich.table import Table

LONGEST_TEXT = 400  # of a row's texts, so that a prompt of many pages leaves its other fields in sight


def readme(text: str) -> Markdown:
    return _Readme(text.rstrip())


def code(text: str, language: str) -> Syntax:
    return Syntax(text.rstrip(), language, background_color="default", word_wrap=True)


def row_code(row: dict[str, Any]) -> Syntax:
    return code(json.dumps(shorten(row), indent=2, ensure_ascii=False), "json")


def shorten(value: Any) -> Any:
    """The same value with an ellipsis in its long texts."""
    if isinstance(value, dict):
        return {key: shorten(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shorten(one) for one in value]
    return f"{value[:LONGEST_TEXT]}…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


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
