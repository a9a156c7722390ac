"""Plans for tests of the Compose runtime: small, and with one of everything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gym.config.model import ContainerFacts
from gym.plan import Plan, Service
from gym.render.bake import StackImages
from gym.render.compose import ComposeFacts
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.images import plan_images, write_build_files
from gym.runtime.compose.pins import Pins
from gym.wire.stack_names import project_name

GOLDEN = Path(__file__).parents[1] / "golden" / "compose"
HOME = Path("/home/ada/.gym/demo")


def service(name: str, **fields: Any) -> Service:
    given: dict[str, Any] = {
        "slug": name.replace("_", "-"),
        "type": "resources_servers",
        "implementation": name,
        "launch": "sdk",
        "directory": Path("/src/servers/resources") / name,
        "digest": f"digest-of-{name}",
    }
    return Service(name=name, **(given | fields))


def plan_of(*services: Service, **fields: Any) -> Plan:
    return Plan(stack="demo", services=services, **fields)


def demo_plan() -> Plan:
    """A model with a secret, an agent, two replicas of a server, one written against nemo_gym, one prebuilt image."""
    return plan_of(
        service(
            "policy_model",
            type="responses_api_models",
            implementation="openai",
            fields={
                "openai_base_url": "http://host.docker.internal:8000/v1",
                "openai_api_key": "secret://policy_api_key",
            },
        ),
        service("mcqa", replicas=2, fields={"note": 'costs $5 and ${more}, says "no"'}),
        service(
            "mcqa_simple_agent",
            type="responses_api_agents",
            implementation="simple_agent",
            needs=("mcqa", "policy_model"),
            container=ContainerFacts(cpus=1.5, memory="512m", env={"HF_TOKEN": "secret://hf_token"}),
        ),
        service("calendar", launch="script", needs=("policy_model",)),
        service("judge", launch="image", directory=None, container=ContainerFacts(image="example.org/judge:2", gpus=1)),
        settings={"policy_model_name": "gpt"},
    )


def facts_of(plan: Plan, **fields: Any) -> ComposeFacts:
    given: dict[str, Any] = {
        "project": project_name(plan.stack, HOME),
        "home": str(HOME),
        "owner": "1000",
        "base_image": "gym-base:0123456789ab",
        "images": {one.name: one.container.image or f"gym-{one.implementation}:0123456789ab" for one in plan.services},
    }
    return ComposeFacts(**(given | fields))


def golden(name: str, text: str) -> None:
    """GYM_UPDATE_GOLDEN=1 writes what is rendered now; look at the difference before it is committed."""
    path = GOLDEN / name
    if os.environ.get("GYM_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def write_images(plan: Plan, folder: Path, pins: Pins | None = None) -> StackImages:
    """Images of a plan, and on disk below `folder` what their builds read."""
    images = plan_images(plan, read_image_sources(plan, folder / "build", folder / "cache"), pins)
    write_build_files(images, folder / "cache")
    return images


def write_folder(tmp_path: Path, name: str = "mcqa") -> Path:
    """A server's folder with something of each kind in it."""
    folder = tmp_path / "src" / name
    (folder / "tests").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "app.py").write_text("app = 1\n")
    (folder / "requirements.txt").write_text("")
    (folder / "data" / "train.jsonl").write_text("{}\n")
    return folder


def shared_plan(**agents: int) -> Plan:
    """Two agents of one server in one process, beside what they ask. `agents`: replicas by name."""
    asked = {"type": "responses_api_agents", "implementation": "simple_agent", "process": "simple-agent.shared"}
    counts = {"mcqa_simple_agent": 1, "weather_simple_agent": 1} | agents
    return plan_of(
        service("policy_model", type="responses_api_models", implementation="scripted"),
        service("mcqa"),
        service("weather"),
        *(
            service(name, needs=(name.removesuffix("_simple_agent"), "policy_model"), replicas=count, **asked)
            for name, count in counts.items()
        ),
    )
