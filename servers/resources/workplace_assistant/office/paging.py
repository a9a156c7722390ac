"""Pages of search results: the page is brought into range, its size is taken at its word."""

from __future__ import annotations

from typing import Any

from office.table import Row


def page_of(rows: list[Row], kind: str, page: Any, page_size: Any) -> dict[str, Any]:
    total = len(rows)
    pages = (total + page_size - 1) // page_size
    page = max(1, min(page, pages)) if pages > 0 else 1
    begin = (page - 1) * page_size
    pagination = {f"total_{kind}": total, "page": page, "page_size": page_size, "total_pages": pages}
    return {kind: rows[begin : min(begin + page_size, total)], "pagination": pagination}
