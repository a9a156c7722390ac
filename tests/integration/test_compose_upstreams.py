"""Addresses said at run time in a stack of containers: by the router, with its token, to every replica."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.plan import RouterPlan
from gym.runtime.status import StackStatus
from tests.support.docker import Stand, call, engine_client, eventually, stand_in

pytestmark = pytest.mark.docker
PATH = "/admin/models/policy_model/upstreams"
MODEL = "policy_model.responses_api_models.vllm_model"
TOKEN = {"authorization": "Bearer a-long-random-token"}


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setenv("GYM_TOKEN", TOKEN["authorization"].removeprefix("Bearer "))
    with stand_in(tmp_path) as stand:
        yield stand


def ask(status: StackStatus, method: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    code, reply, _ = call(status, method, PATH, body, **headers)
    return code, json.loads(reply)


def test_each_container_of_a_model_hears_of_addresses_and_remembers_them(stand: Stand) -> None:
    environ = {"policy_base_url": "http://127.0.0.1:1/v1", "policy_api_key": "k", "policy_model_name": "m"}
    plan, secrets = stand.plan(
        "mcqa",
        "vllm_model",
        overrides=tuple(f"{key}={value}" for key, value in environ.items()),
        replicas={"policy_model": 2},
        router=RouterPlan(host="0.0.0.0", port=0, needs_token=True),
    )
    status = stand.up_plan(plan, secrets)
    assert ask(status, "PUT", {"base_urls": "http://10.1.2.3:8000/v1"})[0] == 401
    code, body = ask(status, "PUT", {"base_urls": "http://127.0.0.1:9/v1", "api_key": "sk-late-one"}, **TOKEN)
    assert (code, body["reached"], len(body["replicas"])) == (200, True, 2)
    # This machine is called otherwise inside a container.
    assert body["base_urls"] == ["http://host.docker.internal:9/v1"]
    assert "sk-late-one" not in json.dumps(body)
    with engine_client() as client:
        names = [one for one in body["replicas"] if one] + ["console"]
        found = client.api.containers(filters={"label": f"gym.stack-dir={stand.home}"})
        for one in found:
            if one["Labels"]["gym.instance"] in ("policy_model", "console"):
                client.api.restart(one["Id"], timeout=5)
        # No other server can read it.
        other = next(one for one in found if one["Labels"]["gym.instance"] == "mcqa")
        assert not any("gym-upstreams" in mount["Destination"] for mount in other["Mounts"])
        assert len(names) == 3

    def remembered() -> bool:
        try:
            _, shown = ask(status, "GET", **TOKEN)
        except (OSError, ValueError):
            return False
        heard = [one.get("version") for one in shown.get("replicas", {}).values()]
        return heard == [1, 1]

    eventually(remembered, bool)
    kept = list((stand.home / "upstreams").rglob("*.json"))
    assert [path.parent.name for path in kept] == ["policy-model"]
    stand.down()
    assert not (stand.home / "upstreams").exists()
