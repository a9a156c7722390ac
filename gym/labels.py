"""Every name by which the parts of a stack recognise one another: labels, environment variables, headers, paths."""

from collections.abc import Mapping
from typing import Final

# Labels on whatever a runtime makes (containers, networks, volumes).
STACK: Final = "gym.stack"
STACK_DIR: Final = "gym.stack-dir"
INSTANCE: Final = "gym.instance"
TYPE: Final = "gym.type"
REPLICA: Final = "gym.replica"
DIGEST: Final = "gym.config-digest"
OWNER: Final = "gym.owner"

# Labels on sandboxes and what belongs to them (networks, images, the helper's volume).
SANDBOX: Final = "gym.sandbox"  # its id; on other things the role: "network", "helper", "image"
SANDBOX_ROLLOUT: Final = "gym.rollout"
SANDBOX_EXPIRES: Final = "gym.expires"  # seconds since the epoch
SANDBOX_OWNER: Final = "gym.owner-lease"  # the client process whose lease keeps it
SANDBOX_WARM: Final = "gym.warm"  # key of the pool it was made for
SANDBOX_PARENT: Final = "gym.parent"  # of a fork
SANDBOX_SPEC: Final = "gym.spec"  # what was asked for, without the values of `env`
SANDBOX_IMAGE: Final = "gym.sandbox-image"  # why we have it: "built", "fork", "snapshot"

# What a server process is told at its start.
ENV_CONFIG: Final = "NEMO_GYM_CONFIG_DICT"  # YAML (we write JSON, a subset): every instance this one may talk to
ENV_INSTANCE: Final = "NEMO_GYM_CONFIG_PATH"  # the name of this instance
ENV_CONFIG_FILE: Final = "GYM_CONFIG_FILE"  # the same document as a file, where it is too long for the environment
ENV_DISCOVERY: Final = "GYM_DISCOVERY"  # path or URL of the discovery document
ENV_LISTEN: Final = "GYM_LISTEN"  # "fd:3" or "0.0.0.0:8000"
ENV_REPLICA: Final = "GYM_REPLICA"  # "mcqa-1"
ENV_DRAIN: Final = "GYM_DRAIN_SECONDS"  # how long a stopping server waits for requests in flight
ENV_SECRETS_DIR: Final = "GYM_SECRETS_DIR"  # one file a secret; /run/secrets in a container
ENV_TOKEN: Final = "GYM_TOKEN"  # what the outside entry point asks for once it is published beyond loopback
ENV_TOKEN_FILE: Final = "GYM_TOKEN_FILE"  # the same from a file
ENV_SANDBOX_URL: Final = "GYM_SANDBOX_URL"  # the broker, for an instance whose config has `sandbox:`
ENV_SANDBOX_TOKEN: Final = "GYM_SANDBOX_TOKEN"  # what it says to the broker
ENV_SANDBOX_CONFIG: Final = "GYM_SANDBOX_CONFIG"  # path of what the broker is told: provider, grants, digests of tokens
BROKER_SECONDS: Final = 35.0  # what a sandbox broker takes at most, after its drain, to remove what it made
ENV_CONSOLE: Final = "GYM_CONSOLE_CONFIG"  # path of what the console shows (gym.render.console)
ENV_PATH: Final = "GYM_PATH"  # more folders to look for servers in
ENV_CACHE: Final = "GYM_CACHE_DIR"

# Headers of the data plane.
HEADER_ROLLOUT: Final = "x-gym-rollout-id"
HEADER_TIMEOUT: Final = "x-gym-timeout"  # seconds left; relative, so clocks need not agree
HEADER_ERROR: Final = "x-gym-error"  # the kind of a failure, so a caller need not parse the body
HEADER_SDK: Final = "x-gym-sdk"  # the SDK version of the agent that made a rollout
HEADER_DEPTH: Final = "x-gym-depth"  # how many agents have asked one another to get here
HEADER_MCP_SESSION: Final = "x-nemo-gym-session-token"

COOKIE_REPLICA: Final = "gym_replica_"  # + slug of the instance: the router's sticky cookie
ROUTER_PORT: Final = 11000  # clients written for NeMo Gym expect a head server there
SERVER_PREFIX: Final = "/s/"

REDACTED: Final = "****"


def names_sandbox(name: str, labels: Mapping[str, str]) -> bool:
    """Is a container of that name the sandbox that its labels speak of? It is called `gym-ID`, and after a dot stands
    whose it became; labels alone may be those of its image."""
    sandbox = labels.get(SANDBOX, "")
    return bool(sandbox) and name.partition(".")[0] == f"gym-{sandbox}"
