from __future__ import annotations

from typing import Any

import pytest

from gym.config.model import StackConfig
from gym.plan import Plan, make_plan
from gym.render.launch_document import Address, launch_document
from tests.support.plans import instance, stack

ADDRESSES: dict[str, Address] = {
    "policy_model": ("127.0.0.1", 9001),
    "mcqa": ("127.0.0.1", 9002),
    "legacy": ("127.0.0.1", 9003),
    "mcqa_simple_agent": ("127.0.0.1", 9004),
    "legacy_agent": ("router", "11000/s/legacy_agent"),
    "head_server": ("127.0.0.1", 11000),
}


def document(name: str, plan: Plan | None = None, secrets: dict[str, str] | None = None) -> dict[str, Any]:
    made = plan or make_plan(stack())
    service = made.service(name)
    assert service is not None
    return launch_document(made, service, ADDRESSES, secrets)


def test_an_agent_gets_its_own_fields_and_the_addresses_of_its_peers() -> None:
    assert document("mcqa_simple_agent") == {
        "mcqa_simple_agent": {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "resources_server": {"type": "resources_servers", "name": "mcqa"},
                    "max_steps": 6,
                    "host": "127.0.0.1",
                    "port": 9004,
                }
            }
        },
        "mcqa": {"resources_servers": {"mcqa": {"entrypoint": "app.py", "host": "127.0.0.1", "port": 9002}}},
        "policy_model": {
            "responses_api_models": {"openai": {"entrypoint": "app.py", "host": "127.0.0.1", "port": 9001}}
        },
        "head_server": {"host": "127.0.0.1", "port": 11000},
    }


def test_no_server_gets_the_secret_of_another() -> None:
    documents = {name: str(document(name)) for name in ADDRESSES if name != "head_server"}
    assert {name for name, text in documents.items() if "canary" in text} == {"policy_model"}


def test_a_secret_is_put_where_its_path_leads_and_nowhere_else() -> None:
    secrets = {
        "policy_model.openai_api_key": "secret://policy_model_openai_api_key",
        "policy_api_key": "secret://policy_api_key",
        "mcqa.not_there": "x",
    }
    content = document("policy_model", secrets=secrets)
    fields = content["policy_model"]["responses_api_models"]["openai"]
    assert fields["openai_api_key"] == "secret://policy_model_openai_api_key"
    assert content["policy_api_key"] == "secret://policy_api_key"
    assert "canary" not in str(content)
    assert "not_there" not in str(document("mcqa", secrets=secrets))


def test_a_secret_deep_in_a_list_is_found_and_the_plan_stays_as_it_was() -> None:
    fields = {"upstreams": [{"url": "a"}, {"url": "b", "api_key": "****"}]}
    plan = make_plan(StackConfig(instances=(instance("mcqa", fields=fields),)))
    content = document("mcqa", plan, {"mcqa.upstreams.1.api_key": "real", "mcqa.upstreams.7.api_key": "none"})
    assert content["mcqa"]["resources_servers"]["mcqa"]["upstreams"] == [{"url": "a"}, {"url": "b", "api_key": "real"}]
    assert plan.services[0].fields == fields


def test_a_server_written_against_nemo_gym_gets_its_dollars_escaped() -> None:
    """OmegaConf resolves what it reads; ours reads JSON and does not."""
    assert document("legacy")["legacy"]["resources_servers"]["legacy"]["prompt"] == "say \\${name}"
    plain = make_plan(StackConfig(instances=(instance("mcqa", fields={"prompt": "say ${name}"}),)))
    assert document("mcqa", plain)["mcqa"]["resources_servers"]["mcqa"]["prompt"] == "say ${name}"


def test_an_address_through_the_router_carries_its_path_in_the_port() -> None:
    content = document("legacy_agent")
    assert content["legacy_agent"]["responses_api_agents"]["simple_agent"]["port"] == "11000/s/legacy_agent"


def test_without_addresses_the_head_server_is_the_planned_router() -> None:
    plan = make_plan(stack())
    content = launch_document(plan, plan.services[0], {})
    assert content["head_server"] == {"host": "127.0.0.1", "port": 11000}
    assert "host" not in content["mcqa"]["resources_servers"]["mcqa"]


@pytest.mark.parametrize("name", ["mcqa_simple_agent", "legacy_agent"])
def test_the_document_has_the_shape_that_nemo_gyms_client_walks(name: str) -> None:
    """name -> type -> implementation -> host and port, for itself and for each reference."""
    content = document(name)
    blocks = [block for key, block in content.items() if key != "head_server" and isinstance(block, dict)]
    assert len(blocks) == 3 if name == "mcqa_simple_agent" else 2
    for block in blocks:
        (by_type,) = block.values()
        (fields,) = by_type.values()
        assert {"host", "port", "entrypoint"} <= set(fields)
