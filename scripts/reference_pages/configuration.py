"""docs/reference/configuration.md: what a configuration file may hold, and the environment's variables."""

from __future__ import annotations

from collections.abc import Iterator

from gym import labels
from gym.broker.config import BrokerSettings, EgressConfig
from gym.config.instance_keys import FACTS
from gym.config.model import ContainerFacts, Instance, SidecarSpec
from gym.server.agent import AgentConfig
from gym.server.agent_tools import AgentTool
from gym.server.config import ServerConfig
from gym.server.judge import JudgeConfig
from gym.server.model import ModelConfig, ProviderConfig
from gym.server.resources import ResourcesConfig
from gym.server.trace_store import CaptureLimits
from gym.wire.sandbox import Grant, ProviderName
from reference_pages.fields import FieldRow, cell, constant_comments, docstrings, field_rows, table, type_words

BLOCKS = {"sandbox": "sandbox", "services": "sidecars"}  # keys of an instance that are models of their own
# Whose keys are none of a model: what the command line and the loader read by name.
TOP_KEYS = (
    FieldRow("config_paths", "list of text", "", "Files that this one includes; it overrides what they say."),
    FieldRow(
        "policy_base_url",
        "text, or a list",
        "",
        "The policy's endpoint, OpenAI-compatible. With it the policy is `openai`.",
    ),
    FieldRow("policy_api_key", "text", "", "Its key; `${oc.env:OPENAI_API_KEY}` keeps it out of files."),
    FieldRow("policy_model_name", "text", "", "What the endpoint calls the model."),
    FieldRow(
        "policy_urls",
        "`public`, `private`, `none`, or a list",
        "by where the router listens",
        "Which endpoints rollouts may bring along ([nemo-gym.md](../nemo-gym.md)).",
    ),
    FieldRow(
        "judge_base_url",
        "text, or a list",
        "",
        "The judge's endpoint, for `judge_model`; `judge_api_key` and `judge_model_name` as for the policy.",
    ),
    FieldRow(
        "strict",
        "true or false",
        "`false`",
        "The strict mode of every verifier that has one and says nothing itself ([verifiers.md](../verifiers.md)).",
    ),
    FieldRow(
        "share",
        "true or false",
        "`false`",
        "Agents of one server, and scripted models, in one process or container ([instances.md](../instances.md)).",
    ),
    FieldRow("sandbox_provider", type_words(ProviderName), "`auto`", "What makes sandboxes."),
    FieldRow("sandbox_settings", "mapping", "", "The sandbox broker's settings, below."),
    FieldRow(
        "head_server",
        "mapping",
        "",
        "`host` and `port` of NeMo Gym's head server; `ng_run` reads them, `gym up` has `--bind` and `--port`.",
    ),
    FieldRow("default_host", "text", "", "The host that `head_server` has where it names none."),
    FieldRow(
        "error_on_almost_servers",
        "true or false",
        "`true`",
        "`false`: what looks like a server and is not complete is left out instead of refused.",
    ),
)
# What a person may set; the rest of the variables is what `gym up` sets for the processes that it starts.
FOR_PEOPLE = {
    "GYM_PATH": "More folders to look for servers in, separated by `:`; see above.",
    "GYM_STACK": "Which stack a command means: `--stack`.",
    "GYM_CACHE_DIR": "Where environments of servers are kept; they are rebuilt when they are gone. Without it `XDG_CACHE_HOME`.",
    "GYM_PYTHON_IMAGE": "The Python image that server images are built on.",
    "GYM_TOKEN": "The token of a stack's router, for commands that ask it.",
    "GYM_TOKEN_FILE": "The same, from a file.",
    "GYM_OWNER": "Whose stacks these are, where several people share one account.",
    "GYM_BLOCKED_SECONDS": "A server whose event loop is blocked for so long exits and is restarted; 60 without it, 0: never.",
}

HEAD = """# Reference: configuration

Written by `scripts/reference` from the models in the code; a test checks that it is current.
[instances.md](../instances.md) explains how an instance runs, [sandboxes.md](../sandboxes.md) the broker, and
[data.md](../data.md) data sets. A key that is none of these is an error with file, line and the nearest key.

A configuration is YAML of three levels, and any other key at the top is a setting that others may refer to as `${key}`:

```yaml
mcqa:                      # an instance: any name
  resources_servers:       # its type: resources_servers, responses_api_agents or responses_api_models
    mcqa:                  # its implementation: the server's folder
      entrypoint: app.py   # its fields
  replicas: 2              # how it runs: beside its type, or among its fields
```
"""
PATHS = """## Where servers are looked for

A name such as `mcqa` is a folder in `servers/*/` or, as NeMo Gym has them, in `resources_servers/`, `responses_api_agents/` and
`responses_api_models/`: of the working directory, then of each folder in `GYM_PATH`, then of the checkout or what came with the
package. The first one counts, and `gym up` says so where there are several.
"""
OVERRIDES = """## Overrides

| written | means |
|---|---|
| `key.path=value` | that key, in the merged configuration; `+key.path=value` and `++key.path=value` say that it may be a new one |
| `~key.path` | the key is taken out |
| `mcqa.replicas=4` | a key of an instance, wherever it stands |
| `-c FILE` | a configuration file more, merged after the servers' own |
| `-f FILE` | a Compose file over ours, for Compose alone ([compose/README.md](../../compose/README.md)) |
| `env.yaml` | in the working directory: read by every command, after all files and before overrides |
"""
DOCKERFILES = """## Dockerfiles and images of one's own

| written | what runs |
|---|---|
| nothing | the server's folder, in an image made from `compose/server/Dockerfile.j2` and `requirements.txt` |
| `Dockerfile` beside `app.py` | that one; `ARG GYM_BASE` and `FROM ${GYM_BASE}` begin it with the SDK |
| `build: FOLDER` | the Dockerfile in that folder |
| `image: NAME` | that image; it is given where to listen by `GYM_LISTEN` |
"""


def page() -> str:
    parts = [
        HEAD,
        f"## Keys of an instance\n\n{table(_fact_rows())}",
        f"## `services:`\n\nEach entry is a name with these keys. {_see('instances.md')}\n\n{table(_without(SidecarSpec, 'name'))}",
        f"## `sandbox:`\n\nNothing is granted by default. {_see('sandboxes.md')}\n\n{table(field_rows(Grant))}",
        f"## Fields of every server\n\n{table(field_rows(ServerConfig))}",
        f"## Fields of an environment\n\n`resources_servers`, beside those of every server.\n\n{table(field_rows(ResourcesConfig, own=True))}",
        f"One that asks a judge has these too:\n\n{table(field_rows(JudgeConfig, own=True))}",
        f"## Fields of an agent\n\n`responses_api_agents`. Budgets are on by default; `null` switches one off.\n\n{table(field_rows(AgentConfig, own=True))}",
        f"Each of `agents` is `{{type: responses_api_agents, name: NAME}}` with\n\n{table(field_rows(AgentTool, own=True))}",
        f"## Fields of a model\n\n`responses_api_models`.\n\n{table([*field_rows(ModelConfig, own=True), *field_rows(ProviderConfig, own=True)])}",
        f"`capture` holds ({_see('capture.md').lower().rstrip('.')}):\n\n{table(field_rows(CaptureLimits))}",
        "A server's own fields are in its README and in `gym info NAME`.\n",
        f"## Settings at the top\n\n{table(TOP_KEYS)}",
        f"## `sandbox_settings:`\n\n{table(field_rows(BrokerSettings))}",
        f"`egress` holds:\n\n{table(field_rows(EgressConfig))}",
        PATHS,
        OVERRIDES,
        DOCKERFILES,
        f"## Variables of the environment\n\n{_variables(FOR_PEOPLE)}",
        f"What `gym up` tells the processes that it starts:\n\n{_variables(dict(_for_processes()))}",
    ]
    return "\n".join(parts)


def _fact_rows() -> list[FieldRow]:
    known = {one.name: one for one in field_rows(ContainerFacts)}
    texts = docstrings(Instance)
    blocks = {key: FieldRow(key, "mapping", "", f"{texts[field]} Its keys are below.") for key, field in BLOCKS.items()}
    return [(known | blocks)[key] for key in FACTS]


def _without(model: type[SidecarSpec], name: str) -> list[FieldRow]:
    rows = [one for one in field_rows(model) if one.name != name]
    return [one._replace(type="text", default="`tcp`") if one.name == "health" else one for one in rows]


def _see(name: str) -> str:
    return f"See [{name}](../{name})."


def _variables(meanings: dict[str, str]) -> str:
    lines = [f"| `{name}` | {cell(text)} |" for name, text in meanings.items()]
    return "\n".join(["| variable | meaning |", "|---|---|", *lines]) + "\n"


def _for_processes() -> Iterator[tuple[str, str]]:
    for constant, text in constant_comments().items():
        if constant.startswith("ENV_") and (name := getattr(labels, constant)) not in FOR_PEOPLE:
            yield name, text
