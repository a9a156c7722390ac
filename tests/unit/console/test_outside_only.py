"""Pages are shown to who asks through the router; everything else of the console stays as it is."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gym.console.outside_only import OutsideOnly
from gym.http.pool import HttpClient
from gym.server.testing import running


def app(router: str) -> Starlette:
    shown = Route("/{rest:path}", lambda _: PlainTextResponse("shown"))
    return Starlette(routes=[shown], middleware=[Middleware(OutsideOnly, router=router)])


async def ask(router: str, path: str) -> int:
    client = HttpClient()
    try:
        async with running(app(router)) as url:
            return (await client.request("GET", url + path, timeout=60)).status
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    ("router", "path", "status"),
    [
        ("localhost", "/view/api/rollouts/summary", 200),
        ("192.0.2.1", "/view/api/rollouts/summary", 403),
        ("192.0.2.1", "/view", 403),
        ("192.0.2.1", "/%76iew/rollouts", 403),
        ("192.0.2.1", "/servers", 200),
        ("192.0.2.1", "/viewpoint", 200),
        ("no such name", "/view/stack", 403),
    ],
)
async def test_who_is_not_the_router_sees_no_page(router: str, path: str, status: int) -> None:
    assert await ask(router, path) == status


async def test_the_router_is_not_a_way_in_for_who_has_a_name_in_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"127.0.0.1": "gym-router-1.gym_stack", "10.0.0.4": "gym-mcqa-1.gym_stack", "9.9.9.9": "dns.example.org"}

    monkeypatch.setattr("gym.http.names._name", lambda address: names.get(address, ""))
    client = HttpClient()
    async with running(app("localhost")) as url:
        found = [
            (await client.request("GET", f"{url}/view", headers=[(b"x-real-ip", one)], timeout=60)).status
            for one in (b"10.0.0.4", b"9.9.9.9", b"10.0.0.1", b"")
        ]
    await client.aclose()
    assert found == [403, 200, 200, 200]
