"""A small stack as configuration would give it: two environments, their agents, one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym.config.model import ContainerFacts, Instance, ServerRef, StackConfig

MODEL = ServerRef(type="responses_api_models", name="policy_model")


def instance(name: str, **given: Any) -> Instance:
    base: dict[str, Any] = {
        "name": name,
        "type": "resources_servers",
        "implementation": name,
        "fields": {},
        "directory": Path("/gym/servers") / name,
        "source_digest": f"sources of {name}",
    }
    return Instance(**base | given)


def agent(name: str, resources: str, **given: Any) -> Instance:
    references = (ServerRef(type="resources_servers", name=resources), MODEL)
    fields = {"resources_server": {"type": "resources_servers", "name": resources}, "max_steps": 6}
    return instance(
        name,
        **{
            "type": "responses_api_agents",
            "implementation": "simple_agent",
            "fields": fields,
            "references": references,
        }
        | given,
    )


def stack(*, replicas: int = 1, **settings: Any) -> StackConfig:
    """Agents come first on purpose: a plan has to put what they need before them."""
    model = instance(
        "policy_model",
        type="responses_api_models",
        implementation="openai",
        fields={"openai_base_url": "https://models.example/v1", "openai_api_key": "sk-canary-0123456789"},
    )
    mcqa = instance("mcqa", container=ContainerFacts(replicas=replicas, cpus=2, memory="2g"))
    legacy = instance("legacy", foreign=True, fields={"prompt": "say ${name}"})
    return StackConfig(
        instances=(agent("mcqa_simple_agent", "mcqa"), mcqa, agent("legacy_agent", "legacy"), legacy, model),
        settings={"policy_model_name": "tiny", "policy_api_key": "sk-canary-0123456789", **settings},
    )
