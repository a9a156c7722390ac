"""The body of a container's creation, written field by field, so that nothing of a request passes through. Pure."""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import orjson
from pydantic import ValidationError

from gym import labels
from gym.broker.provider import Tags
from gym.broker.providers.docker.image_build import build_tag
from gym.wire.sandbox import SandboxSpec

HELPER_AT: Final = "/.gym"
HELPER: Final = f"{HELPER_AT}/helper"
SILENCE_SECONDS: Final = 30  # without a broker a sandbox ends by itself
OPEN_FILES: Final = 16384  # some machines allow 20,000 and no more
TMP_BYTES: Final = 256 << 20  # of a read-only sandbox's /tmp
ID: Final = re.compile(r"^[a-z0-9][a-z0-9-]{0,62}$")
# `nproc` counts the whole machine's cores whatever the quota is; what starts one thread a core believes it.
THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "GOMAXPROCS",
    "CARGO_BUILD_JOBS",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "PYTHON_CPU_COUNT",
)
# The engine's own list, which one of ours takes the place of; then what the sandbox's first process is to be left alone
# by (its out-of-memory score above all), and the files that the engine binds in from its own disk, past `limits.disk`.
# Of the files of /proc itself there is one for the whole machine: root in a container owns them there, and could change
# their modes for everybody. What a kernel does not have is passed over.
OF_THE_MACHINE: Final = (
    *("bootconfig", "buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "cpu", "cpuinfo", "crypto"),
    *("devices", "diskstats", "dma", "driver", "dynamic_debug", "execdomains", "fb", "filesystems"),
    *("interrupts", "iomem", "ioports", "kallsyms", "key-users", "kmsg", "kpagecgroup", "kpagecount"),
    *("kpageflags", "loadavg", "locks", "mdstat", "meminfo", "misc", "modules", "mtrr", "pagetypeinfo"),
    *("partitions", "pressure", "schedstat", "slabinfo", "softirqs", "stat", "swaps", "sysvipc", "tty"),
    *("uptime", "version", "version_signature", "vmallocinfo", "vmstat", "zoneinfo"),
)
READ_ONLY: Final = (
    *(f"/proc/{name}" for name in OF_THE_MACHINE),
    *("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
    "/proc/1",
    *("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"),
)
# By these a runtime knows what belongs to a stack; an image that carries them would make its sandboxes look so.
NOT_FROM_THE_IMAGE: Final = {
    name: ""
    for name in (
        labels.STACK_DIR,
        labels.TYPE,
        labels.REPLICA,
        labels.DIGEST,
        labels.OWNER,
        "com.docker.compose.project",
        "com.docker.compose.service",
        "com.docker.compose.container-number",
        "com.docker.compose.config-hash",
        "com.docker.compose.oneoff",
    )
}


class ContainerSetup(NamedTuple):
    """What is known of the engine and of the image once a sandbox is to be made."""

    image: str  # an id or a full name
    helper: str  # the volume
    network: str = "none"
    env: tuple[str, ...] = ()  # NAME=value, from an egress gate
    dns: tuple[str, ...] = ()
    cpus: float = 0.0  # of the machine; the engine refuses more
    image_env: frozenset[str] = frozenset()  # names that the image sets
    disk_quota: bool = False  # whether the storage driver can limit a layer


def create_body(spec: SandboxSpec, tags: Tags, setup: ContainerSetup) -> dict[str, Any]:
    if not ID.fullmatch(tags.id):
        raise ValueError(f"not a sandbox's id: {tags.id!r}")
    body: dict[str, Any] = {
        "Image": setup.image,
        "Entrypoint": helper_argv(),
        "Cmd": [],
        "Env": _environment(spec, setup),
        "Hostname": tags.id,
        "Labels": {**NOT_FROM_THE_IMAGE, **spec.labels, **tags_to_labels(tags), labels.SANDBOX_SPEC: _spec_label(spec)},
        "OpenStdin": True,
        "StdinOnce": False,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "StopTimeout": 0,
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would cost an exec every few seconds
        "HostConfig": _host_config(spec, setup),
    }
    if spec.workdir is not None:
        body["WorkingDir"] = spec.workdir
    if spec.user is not None:
        body["User"] = spec.user
    return body


def helper_argv(linger: int = SILENCE_SECONDS) -> list[str]:
    return [HELPER, "--guard", "--silence", str(SILENCE_SECONDS), "--linger", str(linger)]


def exec_body(user: str) -> dict[str, Any]:
    """A second helper in the same sandbox, as another user."""
    return {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "Privileged": False,
        "User": user,
        "Cmd": helper_argv(linger=0),
    }


def container_name(tags: Tags) -> str:
    """Labels cannot change after creation: what was said of a sandbox later stands in its name."""
    return f"gym-{tags.id}"


def retagged_name(tags: Tags) -> str:
    values = [tags.instance, tags.owner, tags.rollout, tags.expires, tags.warm, tags.request]
    return f"gym-{tags.id}.{urlsafe_b64encode(orjson.dumps(values)).decode().rstrip('=')}"


def tags_to_labels(tags: Tags) -> dict[str, str]:
    """All of them, empty ones too: an image made from a sandbox hands its labels down."""
    return {
        labels.STACK: tags.stack,
        labels.INSTANCE: tags.instance,
        labels.SANDBOX: tags.id,
        labels.SANDBOX_OWNER: tags.owner,
        labels.SANDBOX_ROLLOUT: tags.rollout,
        labels.SANDBOX_EXPIRES: f"{tags.expires:.3f}",
        labels.SANDBOX_WARM: tags.warm,
        labels.SANDBOX_PARENT: tags.parent,
        labels.SANDBOX_IMAGE: "",
    }


def labels_to_tags(found: Mapping[str, str], name: str = "") -> Tags:
    """What a container's labels say, or its name, where it was handed out later."""
    tags = Tags(
        id=found.get(labels.SANDBOX, ""),
        stack=found.get(labels.STACK, ""),
        instance=found.get(labels.INSTANCE, ""),
        owner=found.get(labels.SANDBOX_OWNER, ""),
        rollout=found.get(labels.SANDBOX_ROLLOUT, ""),
        expires=_number(found.get(labels.SANDBOX_EXPIRES, "")),
        warm=found.get(labels.SANDBOX_WARM, ""),
        parent=found.get(labels.SANDBOX_PARENT, ""),
    )
    values = name.lstrip("/").partition(".")[2]
    try:
        later = orjson.loads(urlsafe_b64decode(values + "=" * (-len(values) % 4))) if values else None
        if later is None or len(later) < len(LATER) - 1:  # names that an earlier version gave have no request
            return tags
        return tags._replace(**dict(zip(LATER, later, strict=False)))
    except (ValueError, TypeError):
        return tags


LATER: Final = ("instance", "owner", "rollout", "expires", "warm", "request")


def labels_to_spec(found: Mapping[str, str], env: Collection[str], image: str) -> SandboxSpec:
    """What was asked for. Values of `env` stand in the container's own, not in a label."""
    try:
        fields = orjson.loads(found.get(labels.SANDBOX_SPEC, "{}"))
        values = dict(entry.partition("=")[::2] for entry in env)
        fields["env"] = {name: values[name] for name in fields.get("env", ()) if name in values}
        return SandboxSpec.model_validate({"image": image, **fields})
    except (ValueError, TypeError, AttributeError, ValidationError):
        return SandboxSpec(image=image)


def _spec_label(spec: SandboxSpec) -> str:
    values = spec.model_dump(mode="json", exclude_defaults=True, exclude={"env", "build", "command", "labels"})
    image = {} if spec.build is None else {"image": build_tag(spec.build)}
    return orjson.dumps({**values, **image, "env": list(spec.env), "labels": spec.labels}).decode()


def _environment(spec: SandboxSpec, setup: ContainerSetup) -> list[str]:
    threads = str(max(1, math.ceil(spec.limits.cpus)))
    hints = {name: threads for name in THREAD_VARIABLES if name not in setup.image_env}
    return [*(f"{name}={value}" for name, value in {**hints, **spec.env}.items()), *setup.env]


def _host_config(spec: SandboxSpec, setup: ContainerSetup) -> dict[str, Any]:
    limits = spec.limits
    config: dict[str, Any] = {
        "NetworkMode": setup.network,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": [],
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidsLimit": limits.pids,
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(min(limits.cpus, setup.cpus or limits.cpus) * 1e9),
        "OomScoreAdj": 500,
        "Init": False,
        "ReadonlyRootfs": spec.read_only,
        "ReadonlyPaths": list(READ_ONLY),
        "Tmpfs": _tmpfs(spec),
        "Mounts": [
            {
                "Type": "volume",
                "Source": setup.helper,
                "Target": HELPER_AT,
                "ReadOnly": True,
                "VolumeOptions": {"NoCopy": True},
            }
        ],
        "LogConfig": {"Type": "none"},
        "AutoRemove": True,
        "RestartPolicy": {"Name": "no"},
        "Ulimits": _ulimits(spec),
        "Dns": list(setup.dns),
    }
    if spec.runtime is not None:
        config["Runtime"] = spec.runtime
    if setup.disk_quota and limits.disk is not None:
        config["StorageOpt"] = {"size": str(limits.disk)}
    return config


def _tmpfs(spec: SandboxSpec) -> dict[str, str]:
    asked = dict(spec.mounts)
    if spec.read_only:
        asked.setdefault("/tmp", min(TMP_BYTES, spec.limits.memory))
    return {path: f"rw,exec,nosuid,nodev,size={size},mode=1777" for path, size in asked.items()}


def _ulimits(spec: SandboxSpec) -> list[dict[str, Any]]:
    wanted = {"nofile": OPEN_FILES, "core": 0}
    if spec.limits.disk is not None:
        wanted["fsize"] = spec.limits.disk  # one file alone cannot pass it; the watch counts them all
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in wanted.items()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
