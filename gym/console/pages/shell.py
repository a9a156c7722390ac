"""The shell around every page: its menu, its styles and scripts, and a policy under which nothing else can run.

A section brings the inside of its page and its JSON; the command or the console that shows it puts them together.
"""

from __future__ import annotations

import functools
import hashlib
import html
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from gym.console.pages.json_posts import RefusedPost
from gym.console.pages.page_token import TokenMiddleware
from gym.errors import UserError

CONSOLE: Final = "gym.console"
HERE: Final = f"{CONSOLE}.pages"
BASE: Final = ("pages/base.css", "pages/base.js")  # of every page
MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
NO_STORE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {**NO_STORE, "content-security-policy": POLICY, "referrer-policy": "no-referrer"}


class NotThere(LookupError):
    """What a URL names is not, or no longer is; the text says so to a person."""


EXPLAINED: Final = (RefusedPost, UserError, NotThere, OSError)  # what a person may meet


@dataclass(frozen=True)
class Section:
    name: str  # its page is /view/NAME, its JSON is below /view/api/NAME/
    title: str  # in the menu
    package: str  # where page.html (the inside of <main>) and what follows lie
    scripts: tuple[str, ...] = ("page.js",)  # in this order, after base.js; "viewer/texts.js" is of gym.console.viewer
    styles: tuple[str, ...] = ("page.css",)
    routes: Sequence[BaseRoute] = ()
    end: Callable[[], Awaitable[None]] | None = None  # awaited when the pages are no longer served


@dataclass(frozen=True)
class PageAccess:
    """Who may see the pages. Without a token: who asks this machine by its own name; the router of a stack asks for
    the stack's token before it asks us."""

    token: str = field(default="", repr=False)
    stack: str = ""  # shown in the menu


def make_app(sections: Sequence[Section], access: PageAccess, first: str = "") -> Starlette:
    """The pages alone: `gym view`. `first`: the section that `/` leads to."""
    # A page elsewhere may point a name of its own at this address; it must not read what lies here.
    near = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)
    guard = Middleware(TokenMiddleware, token=access.token) if access.token else near
    front = Route("/", lambda _: RedirectResponse(f"/view/{first or sections[0].name}"))
    routes = [front, *make_pages(sections, access)]
    return Starlette(routes=routes, middleware=[guard], lifespan=lambda _: ending(sections))


@asynccontextmanager
async def ending(sections: Sequence[Section]) -> AsyncIterator[None]:
    """What the sections hold is let go of at the end."""
    try:
        yield
    finally:
        await end_all(sections)


async def end_all(sections: Sequence[Section]) -> None:
    for one in sections:
        if one.end is not None:
            await one.end()


def make_pages(sections: Sequence[Section], access: PageAccess) -> list[BaseRoute]:
    """`/view/NAME`, `/view/static/NAME/FILE`, and the sections' own JSON."""
    named = {_address(one, name): _source(one, name) for one in sections for name in one.scripts + one.styles}
    named |= {f"/view/static/{name}": (HERE, name.partition("/")[2]) for name in BASE}
    statics = {address: _load(package, name) for address, (package, name) in named.items()}
    pages = [Route(f"/view/{one.name}", _answer_page(fill_shell(one, sections, access))) for one in sections]
    routes = [route for one in sections for route in one.routes]
    return [
        Route("/view", lambda _: RedirectResponse(f"/view/{sections[0].name}")),
        *pages,
        Route("/view/static/{section}/{name}", functools.partial(_answer_static, statics)),
        *routes,
    ]


def fill_shell(section: Section, sections: Sequence[Section], access: PageAccess) -> str:
    """The page as it is served."""
    links = [_menu_link(one, current=one is section) for one in sections]
    styles = [f"/view/static/{BASE[0]}", *(_address(section, one) for one in section.styles)]
    scripts = [f"/view/static/{BASE[1]}", *(_address(section, one) for one in section.scripts)]
    return _fill(
        section,
        {
            "styles": "\n".join(f'<link rel="stylesheet" href="{one}">' for one in styles),
            "scripts": "\n".join(f'<script src="{one}" defer></script>' for one in scripts),
            "menu": f'<nav id="menu" aria-label="Sections">{_brand(access)}{"".join(links)}</nav>',
        },
    )


def _address(section: Section, name: str) -> str:
    return f"/view/static/{name}" if "/" in name else f"/view/static/{section.name}/{name}"


def _source(section: Section, name: str) -> tuple[str, str]:
    """Package and file: the section's own, or those of a package beside it."""
    folder, _, file = name.rpartition("/")
    return f"{CONSOLE}.{folder}" if folder else section.package, file


def fill_file(section: Section) -> str:
    """The same as one file that needs no server: no menu, styles and scripts inside; `<!-- policy -->` and
    `<!-- data -->` are left to be filled."""
    styles = [_read(HERE, "base.css"), *(_read(section.package, one) for one in section.styles)]
    scripts = [_read(HERE, "base.js"), *(_read(section.package, one) for one in section.scripts)]
    parts = {"styles": f"<style>{''.join(styles)}</style>", "scripts": f"<script>{''.join(scripts)}</script>"}
    return _fill(section, {**parts, "menu": ""})


def answering(call: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """What a person may meet becomes a sentence on the page."""

    @functools.wraps(call)
    def answer(request: Request) -> Response:
        try:
            return call(request)
        except EXPLAINED as error:
            return explain(error)

    return answer


def explain(error: Exception) -> Response:
    """Of one of `EXPLAINED`: the sentence and its status."""
    if isinstance(error, RefusedPost):
        return json_reply({"error": str(error)}, error.status)
    if isinstance(error, OSError):
        return json_reply({"error": f"{error.filename}: {error.strerror}"}, 410)
    return json_reply({"error": str(error)}, 404 if isinstance(error, NotThere) else 400)


def json_reply(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, NO_STORE, "application/json")


def _fill(section: Section, parts: dict[str, str]) -> str:
    text = _read(HERE, "shell.html")
    text = text.replace("[title]", html.escape(section.title), 1).replace("[name]", section.name, 1)
    for name, value in ({"inside": _read(section.package, "page.html")} | parts).items():
        text = text.replace(f"<!-- {name} -->", value, 1)
    return text


def _menu_link(section: Section, *, current: bool) -> str:
    mark = ' aria-current="page"' if current else ""
    return f'<a href="/view/{section.name}"{mark}>{html.escape(section.title)}</a>'


def _brand(access: PageAccess) -> str:
    return f'<b class="brand">{html.escape(access.stack or "Compose Gym")}</b>'


@dataclass(frozen=True)
class _Static:
    body: bytes
    etag: str
    kind: str


def _load(package: str, name: str) -> _Static:
    body = _read(package, name).encode()
    kind = MEDIA_TYPES[name[name.rindex(".") :]]
    return _Static(body, f'"{hashlib.sha256(body).hexdigest()[:24]}"', kind)


def _answer_page(text: str) -> Callable[[Request], Response]:
    return lambda _: Response(text, headers=PAGE_HEADERS, media_type="text/html")


def _answer_static(statics: dict[str, _Static], request: Request) -> Response:
    """Looked up among the names that were loaded: no path of a request reaches the disk."""
    found = statics.get("/view/static/{section}/{name}".format(**request.path_params))
    if found is None:
        return json_reply({"error": "no such file"}, status=404)
    headers = {"etag": found.etag, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.kind)


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text("utf-8")
