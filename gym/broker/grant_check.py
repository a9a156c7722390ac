"""Checks a request against the grant of its instance: returns the request within its limits, or refuses it.

Pure. What is not granted is refused here, before the engine is called.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from gym.broker.errors import RequestRefused
from gym.broker.providers.docker.dockerfile_sources import read_sources
from gym.broker.providers.docker.image_name import covers, parse_reference
from gym.wire.addresses import is_address
from gym.wire.sandbox import Build, Grant, Limits, Network, SandboxSpec, show_size

KERNEL_PATHS: Final = ("/proc", "/sys", "/dev", "/.gym")
USER: Final = re.compile(r"^(?:[a-z_][a-z0-9_-]{0,31}\$?|\d{1,9})(?::(?:[a-z_][a-z0-9_-]{0,31}|\d{1,9}))?$")
VARIABLE: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,255}$")
LABEL: Final = re.compile(r"^[a-z0-9][a-z0-9._/-]{0,127}$")
SIZES: Final = frozenset(("memory", "disk"))
MAX_MOUNTS, MAX_LABELS = 16, 32
ENV_BYTES, LABEL_BYTES, COMMAND_BYTES, BUILD_BYTES = 128 << 10, 4096, 128 << 10, 16 << 20

# What people write when they know Docker, and why it is not to be had here. Keys are compared without case, - and _.
REASONS: Final[Mapping[str, str]] = {
    "privileged": "a privileged container is root on this machine",
    "binds": "a mount of the host's files reaches past the sandbox; put files in by `put_file` or `put_tree`",
    "volumes": "volumes outlive a sandbox and are shared; `mounts` are tmpfs, files go in by `put_file` or `put_tree`",
    "volumesfrom": "files of another container are not this sandbox's",
    "pid": "the host's processes are not this sandbox's",
    "pidmode": "the host's processes are not this sandbox's",
    "ipc": "shared memory is this sandbox's own",
    "ipcmode": "shared memory is this sandbox's own",
    "uts": "the host's name is not this sandbox's",
    "utsmode": "the host's name is not this sandbox's",
    "usernsmode": "users of the host are not this sandbox's",
    "cgroupnsmode": "the host's control groups are not this sandbox's",
    "cgroup": "its control group is the engine's to choose",
    "cgroupparent": "its control group is the engine's to choose, so that its limits hold",
    "networkmode": "networks are asked for by `network`: none, internet, or a list of hosts",
    "networkingconfig": "networks are asked for by `network`: none, internet, or a list of hosts",
    "net": "networks are asked for by `network`: none, internet, or a list of hosts",
    "portbindings": "no port of a sandbox is published on the host",
    "ports": "no port of a sandbox is published on the host",
    "publishallports": "no port of a sandbox is published on the host",
    "links": "a sandbox is not linked to other containers",
    "extrahosts": "names are answered by the network that was granted",
    "dns": "names are answered by the network that was granted",
    "devices": "devices of the host stay with the host",
    "devicerequests": "devices of the host stay with the host",
    "devicecgrouprules": "devices of the host stay with the host",
    "gpus": "devices of the host stay with the host",
    "capadd": "all capabilities are dropped and none is given back",
    "capdrop": "all capabilities are dropped already",
    "securityopt": "seccomp, AppArmor and no-new-privileges stay as they are",
    "sysctls": "settings of the kernel stay as they are",
    "ulimits": "limits are asked for by `limits`",
    "oomkilldisable": "a sandbox that takes too much memory ends",
    "oomscoreadj": "a sandbox is the first to go when memory is short",
    "hostconfig": "this is not the Docker API: say what is wanted (`image`, `limits`, `network`, ...)",
    "config": "this is not the Docker API: say what is wanted (`image`, `limits`, `network`, ...)",
    "entrypoint": "the sandbox's first process is ours; `command` runs as its first job",
    "cmd": "the sandbox's first process is ours; `command` runs as its first job",
    "hostname": "it is the sandbox's id",
    "tmpfs": "tmpfs are asked for by `mounts`: path -> size",
    "shmsize": "ask for a tmpfs on /dev/shm by `mounts`",
    "readonlyrootfs": "it is `read_only`",
    "autoremove": "every sandbox is removed at its end",
    "restartpolicy": "a sandbox that ended is not restarted",
    "logconfig": "a sandbox has no log; commands return their output",
    "storageopt": "disk is asked for by `limits.disk`",
    "name": "names are given by the broker",
    "id": "ids are given by the broker",
    "container": "only sandboxes of this stack can be named, by their id",
}


class EgressRules(NamedTuple):
    """What one phase of a sandbox may reach. `everything` is the phase that was granted the internet."""

    hosts: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def of(cls, network: Network) -> EgressRules:
        return cls(network.allow, network.access == "internet")

    def allows(self, host: str) -> bool:
        return bool(host) and (self.everything or any(fits(host, pattern) for pattern in self.hosts))


def fits(host: str, pattern: str) -> bool:
    """`*.example.org` is every name below example.org, and not example.org itself."""
    if pattern.startswith("*."):
        return not is_address(host) and host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def explain_extra(body: Any) -> str | None:
    """Why a key is not allowed in a request; None where it has no such key."""
    if not isinstance(body, Mapping):
        return None
    known = set(SandboxSpec.model_fields)
    for key in map(str, body):
        reason = REASONS.get(re.sub(r"[-_]", "", key).casefold())
        if key not in known and reason is not None:
            return f"`{key}` is refused: {reason}."
    limits = body.get("limits")
    return explain_extra(limits) if isinstance(limits, Mapping) else None


def check_spec(spec: SandboxSpec, grant: Grant) -> SandboxSpec:
    """The same request with its defaults within the grant; `RequestRefused` where it asks for more."""
    if spec.build is not None:
        check_build(spec.build, grant)
    elif spec.image is not None:
        spec = spec.model_copy(update={"image": check_image(spec.image, grant)})
    _check_words(spec)
    _check_env(spec.env)
    check_labels(spec.labels)
    _check_network(spec.network, grant)
    if spec.runtime is not None and spec.runtime not in grant.runtimes:
        raise RequestRefused(f"`runtime: {spec.runtime}` is not granted; {_may(grant.runtimes, 'runtimes')}.")
    limits = _check_limits(spec.limits, grant)
    _check_mounts(spec.mounts, grant)
    return spec.model_copy(update={"limits": limits, "ttl": _within(spec, "ttl", grant.max_ttl, "max_ttl")})


def check_image(image: str, grant: Grant) -> str:
    """Its full name, so that the engine cannot read another one into it."""
    try:
        reference = parse_reference(image)
    except ValueError as error:
        raise RequestRefused(f"`image`: {error}.", status=422) from None
    if reference.ours:
        raise RequestRefused(f"`image: {image}` belongs to other sandboxes.")
    if not any(covers(pattern, reference) for pattern in grant.images):
        raise RequestRefused(f"`image: {image}` is not granted to this instance; {_may(grant.images, 'images')}.")
    return reference.whole


def check_build(build: Build, grant: Grant) -> None:
    """A Dockerfile may begin from granted images only, and makes the engine fetch nothing by itself."""
    if not grant.build:
        raise RequestRefused("`build` is not granted to this instance: set `build: true` in its `sandbox:`.")
    size = len(build.dockerfile) + sum(map(len, build.files.values()))
    if size > BUILD_BYTES:
        raise RequestRefused(f"`build` is {size} bytes; at most {BUILD_BYTES} travel in a request.", status=422)
    for path in build.files:
        _check_build_path(path)
    sources = read_sources(build.dockerfile, build.args)
    if sources.frontend:
        raise RequestRefused(
            f"`build`: `# syntax={sources.frontend}` would run that image as the builder; leave it out."
        )
    if sources.doubts:
        raise RequestRefused(f"`build`: {sources.doubts[0]}.", status=422)
    if sources.fetched:
        raise RequestRefused(
            f"`build`: ADD {sources.fetched[0]} would be fetched by the engine, from where it stands; use RUN."
        )
    if sources.unclear:
        raise RequestRefused(f"`build`: {sources.unclear[0]} is not a complete image name; give it a default by ARG.")
    for image in sources.images:
        check_image(image, grant)


def _check_build_path(path: str) -> None:
    if path.startswith("/") or posixpath.normpath(path) != path or path.startswith("..") or "\0" in path:
        raise RequestRefused(f"`build.files`: {path!r} is not a plain path below the Dockerfile.", status=422)


def _check_words(spec: SandboxSpec) -> None:
    check_user(spec.user)
    if spec.workdir is not None and (not spec.workdir.startswith("/") or not spec.workdir.isprintable()):
        raise RequestRefused(f"`workdir: {spec.workdir!r}` is not an absolute path.", status=422)
    if any("\0" in word for word in spec.command) or sum(map(len, spec.command)) > COMMAND_BYTES:
        raise RequestRefused(f"`command` has a NUL in it, or more than {COMMAND_BYTES} bytes.", status=422)


def check_user(user: str | None) -> None:
    """Checked here, as the engine reports an impossible user as its own failure."""
    if user is not None and not USER.fullmatch(user):
        raise RequestRefused(f"`user: {user[:60]!r}`: write a name or a number, and a group after a colon.", status=422)


def _check_env(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not VARIABLE.fullmatch(name) or "\0" in value:
            raise RequestRefused(
                f"`env.{name}` is not a variable: letters, digits and _, and no NUL in its value.", status=422
            )
    if sum(len(name) + len(value) for name, value in env.items()) > ENV_BYTES:
        raise RequestRefused(f"`env` is larger than {ENV_BYTES} bytes; put a file.", status=422)


def check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise RequestRefused(f"`labels`: {len(labels)} of them; at most {MAX_LABELS}.", status=422)
    for name, value in labels.items():
        if name.casefold().startswith("gym.") or name.casefold().startswith("com.docker."):
            raise RequestRefused(
                f"`labels.{name}`: names that begin with gym. or com.docker. are reserved for the broker."
            )
        if not LABEL.fullmatch(name) or len(value) > LABEL_BYTES or "\0" in value:
            raise RequestRefused(
                f"`labels.{name[:60]}` is not a label: lower case, at most {LABEL_BYTES} bytes.", status=422
            )


def _check_network(network: Network, grant: Grant) -> None:
    for phase in (network, network.setup):
        if phase is None:
            continue
        if phase.access not in grant.network:
            raise RequestRefused(
                f"`network: {phase.access}` is not granted to this instance; {_may(grant.network, 'network')}."
            )
        for host in phase.allow:
            if not any(fnmatchcase(host, pattern) for pattern in grant.hosts):
                raise RequestRefused(
                    f"`network.allow: {host}` is not granted to this instance; {_may(grant.hosts, 'hosts')}."
                )
    if network.setup is not None:
        _check_setup(network.setup, network)


def _check_setup(setup: Network, run: Network) -> None:
    """What the run may reach is attached when the sandbox is made: a setup that may reach less would not be kept to."""
    if setup.access == "internet" or run.access == "none":
        return
    rules = EgressRules.of(setup)
    beyond = [host for host in run.allow if not rules.allows(host)]
    if run.access == "internet" or beyond:
        what = "the internet" if run.access == "internet" else ", ".join(beyond)
        raise RequestRefused(
            f"`network.setup: {setup.access}` is narrower than the run, which may reach {what}: "
            "a setup phase may reach more than the run, never less.",
            status=422,
        )


def _check_limits(limits: Limits, grant: Grant) -> Limits:
    return limits.model_copy(
        update={
            "cpus": _within(limits, "cpus", grant.max_cpus, "max_cpus"),
            "memory": _within(limits, "memory", grant.max_memory, "max_memory"),
            "pids": _within(limits, "pids", grant.max_pids, "max_pids"),
            "disk": grant.max_disk if limits.disk is None else _within(limits, "disk", grant.max_disk, "max_disk"),
        }
    )


def _within(asked: SandboxSpec | Limits, field: str, limit: float, key: str) -> Any:
    """What was asked for; a default gives way to a smaller grant, a wish does not."""
    value = getattr(asked, field)
    if value <= limit:
        return value
    if field not in asked.model_fields_set:
        return limit
    asked_for, granted = (show_size(int(one)) if field in SIZES else f"{one:g}" for one in (value, limit))
    raise RequestRefused(f"`{field}: {asked_for}` is more than this instance is granted; `{key}` is {granted}.")


def _check_mounts(mounts: Mapping[str, int], grant: Grant) -> None:
    if len(mounts) > MAX_MOUNTS:
        raise RequestRefused(f"`mounts`: {len(mounts)} of them; at most {MAX_MOUNTS}.", status=422)
    for path, size in mounts.items():
        plain = path.startswith("/") and not path.startswith("//") and posixpath.normpath(path) == path
        if not plain or not path.isprintable() or path == "/":
            raise RequestRefused(f"`mounts`: {path!r} is not a plain absolute path of a directory.", status=422)
        if path != "/dev/shm" and any(path == own or path.startswith(f"{own}/") for own in KERNEL_PATHS):
            raise RequestRefused(f"`mounts`: {path} lies in {', '.join(KERNEL_PATHS)}, which stay as they are.")
        if size > grant.max_memory:
            raise RequestRefused(
                f"`mounts.{path}: {size}` is more than `max_memory`, {grant.max_memory}: tmpfs is memory."
            )


def _may(granted: Iterable[str], key: str) -> str:
    names = ", ".join(granted)
    return f"it may have {names}" if names else f"it may have none: its `sandbox: {{{key}: [...]}}` is empty"
