"""Every name by which the parts of a stack recognise one another: labels, environment variables, headers, paths."""

from collections.abc import Mapping
from typing import Final

# Labels on whatever a runtime makes (containers, networks, volumes).
STACK: Final = "gym.stack"
STACK_DIR: Final = "gym.stack-dir"
INSTANCE: Final = "gym.instance"
INSTANCES: Final = "gym.instances"  # of a container that several share: JSON, the digest of each by its name
TYPE: Final = "gym.type"
REPLICA: Final = "gym.replica"
DIGEST: Final = "gym.config-digest"
SETTINGS: Final = "gym.settings"  # a digest of the file that it reads at its start
OWNER: Final = "gym.owner"

SECRETS: Final = "gym.secrets"  # on a pod: a digest of the secrets that it mounts
MAY_ENTER: Final = "gym/may-enter"  # on pods or a namespace of a cluster: may come in by the router's outside port

PACK: Final = "gym.pack"  # on the image of a packed environment: its manifest (gym.render.pack), as JSON

# Labels on sandboxes and what belongs to them (networks, images, the helper's volume).
SANDBOX: Final = "gym.sandbox"  # its id; on other things the role: "network", "helper", "image"
SANDBOX_ROLLOUT: Final = "gym.rollout"
SANDBOX_EXPIRES: Final = "gym.expires"  # seconds since the epoch
SANDBOX_OWNER: Final = "gym.owner-lease"  # the client process whose lease keeps it
SANDBOX_WARM: Final = "gym.warm"  # key of the pool it was made for
SANDBOX_PARENT: Final = "gym.parent"  # of a fork
SANDBOX_SPEC: Final = "gym.spec"  # what was asked for, without the values of `env`
SANDBOX_NETWORK: Final = "gym.network"  # of a pod: what its namespace's policies let it reach, "none" or "internet"
SANDBOX_TAGS: Final = "gym.tags"  # of a pod, as an annotation: all of the above in full, for what fits no label
SANDBOX_IMAGE: Final = "gym.sandbox-image"  # why we have it: "built", "fork"

# Environment variables of a server process.
ENV_CONFIG: Final = "NEMO_GYM_CONFIG_DICT"  # YAML (we write JSON, a subset): every instance this one may talk to
ENV_INSTANCE: Final = "NEMO_GYM_CONFIG_PATH"  # the name of this instance
ENV_CONFIG_FILE: Final = "GYM_CONFIG_FILE"  # the same document as a file, where it is too long for the environment
ENV_SHARED: Final = "GYM_SHARED"  # a file: the variables of each instance of a process that hosts several
ENV_DISCOVERY: Final = "GYM_DISCOVERY"  # path or URL of the discovery document
ENV_WANTED: Final = "GYM_WANTED"  # folder of the wanted state (gym.wire.wanted), for the reconciler
ENV_UPSTREAMS: Final = "GYM_UPSTREAMS"  # folder of a model's run-time addresses; of all models', for the console
ENV_ROUTES: Final = "GYM_ROUTES"  # path of the router's dynamic file, for the process that writes it
ENV_LISTEN: Final = "GYM_LISTEN"  # "fd:3" or "0.0.0.0:8000"
ENV_HOSTS: Final = "GYM_HOSTS"  # names by which a server may be asked: "a.example,.cluster.local"; "*": any
ENV_REPLICA: Final = "GYM_REPLICA"  # "mcqa-1"
ENV_DRAIN: Final = "GYM_DRAIN_SECONDS"  # how long a stopping server waits for requests in flight
ENV_BLOCKED: Final = "GYM_BLOCKED_SECONDS"  # a server whose event loop is blocked for so long exits; 0: never
ENV_TEST_SECONDS: Final = "GYM_TEST_SECONDS"  # how long one test of `gym test` may take
ENV_PEER_TOKEN: Final = "GYM_PEER_TOKEN"  # what servers of one stack show each other, where other machines reach them
ENV_SECRETS_DIR: Final = "GYM_SECRETS_DIR"  # one file a secret; /run/secrets in a container
ENV_TOKEN: Final = "GYM_TOKEN"  # what the outside entry point asks for once it is published beyond loopback
ENV_TOKEN_FILE: Final = "GYM_TOKEN_FILE"  # the same from a file
ENV_SANDBOX_URL: Final = "GYM_SANDBOX_URL"  # the broker, for an instance whose config has `sandbox:`
ENV_SANDBOX_TOKEN: Final = "GYM_SANDBOX_TOKEN"  # its token for the broker
ENV_SANDBOX_CONFIG: Final = "GYM_SANDBOX_CONFIG"  # path of the broker's settings: provider, grants, digests of tokens
BROKER_SECONDS: Final = 35.0  # what a sandbox broker takes at most, after its drain, to remove what it made
ENV_NOTES: Final = "GYM_STACK_NOTES"  # folder of gym.wire.stack_notes, for the console
ENV_LOGS: Final = "GYM_STACK_LOGS"  # folder with a log for each process, for the console
ENV_LOG_COPIES: Final = "GYM_LOG_COPIES"  # host:port of the console, to which a container sends what it prints
ENV_CATALOG: Final = "GYM_STACK_CATALOG"  # folder of gym.wire.catalog_copy, for the console
ENV_RESULTS: Final = "GYM_RESULTS"  # folder with collected rollouts, for the console
ENV_CONSOLE: Final = "GYM_CONSOLE_CONFIG"  # path of what the console shows (gym.render.console_document)
ENV_PATH: Final = "GYM_PATH"  # more folders to look for servers in
ENV_CACHE: Final = "GYM_CACHE_DIR"  # environments of local servers, which are rebuilt when they are gone

# The /healthz text and the exit code of a server whose event loop is blocked.
BLOCKED: Final = "its event loop is blocked"
EXIT_BLOCKED: Final = 86

# Headers of the data plane.
HEADER_ROLLOUT: Final = "x-gym-rollout-id"  # whose calls these are, at every hop
HEADER_TIMEOUT: Final = "x-gym-timeout"  # seconds left; relative, so clocks need not agree
HEADER_ERROR: Final = "x-gym-error"  # the kind of a failure, so a caller need not parse the body
HEADER_PEER: Final = "x-gym-peer"  # the token of labels.ENV_PEER_TOKEN; it never leaves the stack
HEADER_SDK: Final = "x-gym-sdk"  # the SDK version of the agent that made a rollout
HEADER_STEPS: Final = "x-gym-steps"  # how long each call of an agent's loop took (gym.wire.step_times)
HEADER_TOOL_ERRORS: Final = "x-gym-tool-errors"  # how many of a rollout's tool calls failed inside their server
HEADER_DEPTH: Final = "x-gym-depth"  # how many agents are nested above this request
HEADER_STREAM: Final = "x-gym-stream"  # the id of a stream of groups, for the client that controls it
HEADER_POLICY: Final = "x-gym-policy"  # in a reply: the endpoint that the rollout brought along was used or passed on
HEADER_POLICY_URL: Final = "x-gym-policy-url"  # of that endpoint, several with blanks between them
HEADER_POLICY_KEY: Final = "x-gym-policy-key"  # its key; no log and no file has it
HEADER_POLICY_MODEL: Final = "x-gym-policy-model"  # percent-encoded, as the next one is
HEADER_POLICY_FOR: Final = "x-gym-policy-for"  # the instance whose calls go there
HEADER_SESSION_TOKEN: Final = "x-gym-session-token"  # claims a recorded session: others need the same one
HEADER_CAPTURE: Final = "x-gym-capture"  # "own": the caller made the session's id; "here": ask no other replica
HEADER_CALLS: Final = "x-gym-calls"  # how many calls a trace is of, recorded or not
HEADER_EPISODE_OVER: Final = "x-gym-episode-over"  # in a tool's reply: the environment has ended the episode
HEADER_CALL: Final = "x-gym-call-id"  # the same id again: the same answer, where a server's state is shared
HEADER_SHARED: Final = "x-gym-state-shared"  # in a reply: every replica can serve this session
HEADER_SEEDLESS: Final = "x-gym-seedless"  # in a reply: /seed_session does nothing here, and may be left out
HEADER_MCP_SESSION: Final = "x-nemo-gym-session-token"  # whose tools an MCP client calls

COOKIE_REPLICA: Final = "gym_replica_"  # + slug of the instance: the router's sticky cookie
ROUTER_PORT: Final = 11000  # clients written for NeMo Gym expect a head server there
HOST_FROM_INSIDE: Final = "host.docker.internal"  # what a container calls the machine it runs on
DEFAULT_STACK: Final = "gym"  # its name where none is given
SERVER_PREFIX: Final = "/s/"
REPLICA_PREFIX: Final = "/s/~"  # + id of a replica: leads to this one alone, or nowhere

REDACTED: Final = "****"


def stack_option(stack: str) -> str:
    """What a command that is proposed needs at its end to reach that stack; the default one needs nothing."""
    return "" if stack in ("", DEFAULT_STACK) else f" --stack {stack}"


def names_sandbox(name: str, labels: Mapping[str, str]) -> bool:
    """Whether a container of that name is the sandbox that its labels name. It is called `gym-ID`, or `gym-ID.OWNER`;
    labels alone may come from its image."""
    sandbox = labels.get(SANDBOX, "")
    return bool(sandbox) and name.partition(".")[0] == f"gym-{sandbox}"
