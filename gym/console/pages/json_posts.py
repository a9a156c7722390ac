"""What a page sends: JSON of a bounded size, of a type that a page elsewhere may not send here."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json
from starlette.requests import Request

from gym.errors import UserError


class RefusedPost(Exception):  # noqa: N818 (a reply, no error of ours)
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_post(request: Request, max_bytes: int, what: str = "a change") -> bytes:
    """A form of a foreign page has another type, and what has this one is asked about first: we never allow it."""
    kinds = {one.partition(";")[0].strip().lower() for one in request.headers.getlist("content-type")}
    if kinds != {"application/json"}:
        found = ", ".join(sorted(kinds))[:60] or "no type"
        raise RefusedPost(415, f"{what} is sent as application/json, found {found}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise RefusedPost(413, f"{what} has at most {max_bytes:,} bytes")
    return bytes(body)


def parse_post(body: bytes, what: str, example: str) -> dict[str, Any]:
    try:
        found = from_json(body, allow_inf_nan=False)  # keeps large integers
    except ValueError as error:
        raise UserError(f"{what} is a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{what} is a JSON object such as {example}")
    return found
