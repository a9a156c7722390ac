"""A throw-away working directory with servers and configuration files in it, and what loading it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gym.config import LoadRequest, StackConfig, load_stack
from gym.config.model import Instance
from gym.errors import ConfigError

POLICY = "{type: responses_api_models, name: policy_model}"


@dataclass
class ConfigTree:
    """`roots` is this folder alone, so nothing of the checkout is seen."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def server(self, place: str, config: str = "", files: Mapping[str, str] | None = None) -> Path:
        """A folder such as `servers/resources/mcqa` with an entry point and, with a text, its configuration."""
        folder = self.root / place
        for name, text in {"app.py": "app = None\n", **(files or {})}.items():
            self.write(f"{place}/{name}", text)
        if config:
            self.write(f"{place}/configs/{folder.name}.yaml", config)
        return folder

    def usual_servers(self) -> None:
        """mcqa with its agent, simple_agent, and the models openai and scripted."""
        self.server("servers/resources/mcqa", MCQA)
        self.server("servers/agents/simple_agent")
        self.server("servers/models/openai", OPENAI)
        self.server("servers/models/scripted", "policy_model: {responses_api_models: {scripted: {mode: rules}}}\n")

    def request(
        self, *names: str, model: str | None = None, files: tuple[str, ...] = (), **rest: object
    ) -> LoadRequest:
        overrides, replicas = rest.get("overrides", ()), rest.get("replicas", {})
        assert isinstance(overrides, tuple)
        assert isinstance(replicas, dict)
        return LoadRequest(
            names=names,
            model=model,
            files=files,
            overrides=overrides,
            replicas=replicas,
            cwd=self.root,
            roots=(self.root,),
            environ=self.environ,
            extras=frozenset(),
            strict=bool(rest.get("strict")),
        )

    def load(self, *names: str, model: str | None = None, files: tuple[str, ...] = (), **rest: object) -> StackConfig:
        return load_stack(self.request(*names, model=model, files=files, **rest))

    def settings(self, text: str, *overrides: str) -> dict[str, object]:
        """What a file of settings alone becomes."""
        self.write("settings.yaml", text)
        found = self.load(files=("settings.yaml",), overrides=overrides).settings
        return {key: value for key, value in found.items() if key not in ("head_server", "config_paths")}

    def problems(self, text: str, *overrides: str, names: tuple[str, ...] = (), model: str | None = None) -> list[str]:
        """What is wrong with a file, as a user reads it; empty when it loads."""
        self.write("main.yaml", text)
        try:
            self.load(*names, model=model, files=("main.yaml",), overrides=overrides)
        except ConfigError as error:
            return [str(problem) for problem in error.problems]
        return []


def instance(stack: StackConfig, name: str) -> Instance:
    found = stack.instance(name)
    assert found is not None, f"{name} is not among {[one.name for one in stack.instances]}"
    return found


MCQA = f"""\
mcqa:
  resources_servers:
    mcqa:
      entrypoint: app.py
      domain: knowledge
      description: Multiple choice
mcqa_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: mcqa}}
      model_server: {POLICY}
      datasets:
      - {{name: example, type: example, license: Apache 2.0, jsonl_fpath: data/example.jsonl}}
"""
OPENAI = """\
policy_model:
  responses_api_models:
    openai:
      entrypoint: app.py
      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
      openai_model: ${policy_model_name}
"""
