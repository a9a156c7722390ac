from __future__ import annotations

import json

from gym.plan import make_plan
from gym.render.console_document import console_document
from tests.support.plans import stack


def test_the_console_gets_everything_but_the_secrets() -> None:
    plan = make_plan(stack(), name="mine")
    document = console_document(plan)
    assert "canary" not in json.dumps(document)
    assert document["stack"] == "mine"
    assert document["config"]["policy_model"]["responses_api_models"]["openai"]["openai_api_key"] == "****"
    assert document["config"]["policy_model_name"] == "tiny"
    assert document["servers"]["mcqa_simple_agent"] == {
        "type": "responses_api_agents",
        "implementation": "simple_agent",
        "prefix": "/s/mcqa_simple_agent",
        "slug": "mcqa-simple-agent",
        "launch": "sdk",
        "directory": "/gym/servers/mcqa_simple_agent",
        "entrypoint": "app.py",
        "needs": ["mcqa", "policy_model"],
        "parts": next(one.parts for one in plan.services if one.name == "mcqa_simple_agent"),
    }
