"""What a person and a client find at a stack's router, whatever its servers run on."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from tests.support.router import eventually


def read(router: str, path: str, token: str = "") -> str:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(f"{router}{path}", headers=headers), timeout=120) as reply:
        return str(reply.read().decode())


def check_pages(router: str, instances: set[str], token: str = "") -> None:
    """The pages of the console, and discovery as a client of another make asks for it."""
    assert "<html" in read(router, "/view/stack", token)
    listed = json.loads(read(router, "/server_instances", token))
    assert {one["config_path"] for one in listed} == instances, listed
    eventually(lambda: _shows_the_log(router, token))  # from another machine it comes later


def _shows_the_log(router: str, token: str) -> bool:
    try:
        return "mcqa is ready" in read(router, "/view/api/stack/logs/mcqa-1", token)
    except urllib.error.HTTPError:
        return False
