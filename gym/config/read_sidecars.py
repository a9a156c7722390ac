"""`services:` of an instance -> what runs beside it. Every mistake is reported with its file, line and key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from gym.config.assets import is_file
from gym.config.catalog import CatalogEntry, own_facts
from gym.config.field_checks import shown_value
from gym.config.late_references import PARTS, SERVICES, fill_own, find_services
from gym.config.model import Instance, SidecarHealth, SidecarSpec
from gym.config.nodes import Findings, Node, describe, did_you_mean, plain
from gym.config.nodes import Path as Key
from gym.config.packed import pin_services
from gym.config.redaction import is_secret_key
from gym.config.values import has_reference
from gym.errors import ConfigError

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?")
_MEMORY: Final = re.compile(r"\d{1,15}(\.\d{1,6})?\s*([bkmgt]|[kmgt]i?b)?", re.I)
_VOLUME: Final = re.compile(r"(?P<source>[A-Za-z0-9_-]+|[./~][^:]*):(?P<target>/[^:]+)(?P<mode>:r[ow])?")
_EXAMPLE: Final = "Write services: {redis: {image: 'redis:7', command: 'redis-server --port ${port}', port: 6379}}."


def is_services(node: Node) -> bool:
    """Has the shape of it; a historical server may have a field of that name."""
    entries = node.value.values() if isinstance(node.value, dict) else ()
    return bool(entries) and all(isinstance(one.value, dict) for one in entries)


def read_services(path: Key, node: Node, bases: Sequence[Path], findings: Findings) -> tuple[SidecarSpec, ...]:
    """Folders are relative to the first of `bases` that has them: the file's, the server's, the working directory."""
    if not isinstance(node.value, dict):
        findings.add(node, path, f"must be a mapping of names to services; found {describe(node.value)}", _EXAMPLE)
        return ()
    found = [_read(name, one, (*path, name), bases, findings) for name, one in node.value.items()]
    return tuple(one for one in found if one is not None)


def services_of(entry: CatalogEntry) -> tuple[SidecarSpec, ...]:
    """Those of a server's own configuration. What is still to be filled in of their `env` is left out."""
    node = own_facts(entry).get(SERVICES)
    if node is None or entry.config is None:
        return ()
    findings = Findings()
    found = read_services((entry.name, SERVICES), node, (entry.config.parent, entry.directory), findings)
    if findings.problems:
        raise ConfigError(findings.problems)
    pinned = pin_services(found, entry.name, entry.directory)
    return tuple(one.model_copy(update={"env": _filled_in(one.env)}) for one in pinned)


def _filled_in(env: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if not has_reference(fill_own(value, 0, ""))}


def check_service_references(instances: Sequence[Instance], settings: Any, findings: Findings) -> None:
    """`${service:redis}` stands in the instance that declares `redis`, and nowhere else: no other one reaches it."""
    for one in instances:
        _check_references([one.fields, one.container.env], one, findings)
        for sidecar in one.sidecars:
            for name, _ in find_services([sidecar.env, sidecar.command, sidecar.arguments]):
                what = f"`${{service:{name}}}` cannot stand in a service: services do not reach each other"
                findings.add(None, f"{one.name}.services.{sidecar.name}", what, "Take it out.")
    for name, _ in find_services(settings):
        what = f"`${{service:{name}}}` stands outside of an instance"
        findings.add(None, "", what, "Write it into a field, or the `env`, of the instance that declares the service.")


def _check_references(trees: Any, instance: Instance, findings: Findings) -> None:
    known = [one.name for one in instance.sidecars]
    for name, part in find_services(trees):
        written = f"${{service:{name}{'.' + part if part else ''}}}"
        if name not in known:
            hint = did_you_mean(name, known) or f"Declare it: {instance.name}: {{services: {{{name}: {{…}}}}}}."
            findings.add(None, instance.name, f"`{written}`: {instance.name} declares no service `{name}`", hint)
        elif part not in ("", *PARTS):
            hint = f"Write ${{service:{name}}} for host:port, ${{service:{name}.host}} or ${{service:{name}.port}}."
            findings.add(None, instance.name, f"`{written}`: a service has no `{part}`", hint)


def _read(name: str, node: Node, path: Key, bases: Sequence[Path], findings: Findings) -> SidecarSpec | None:
    before = len(findings.problems)
    if not _NAME.fullmatch(name):
        findings.add(node, path, "is not a name of a service", "Write small letters, digits and dashes: redis, mail-1.")
    if not isinstance(node.value, dict):
        findings.add(node, path, f"must be a mapping; found {describe(node.value)}", _EXAMPLE)
        return None
    given: dict[str, Any] = {}
    for key, child in node.value.items():
        if not child.known or child.value is None:
            continue
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"It knows: {', '.join(_KEYS)}."
            findings.add(child, (*path, key), "is not a key of a service", hint)
            continue
        wanted, convert = _KEYS[key]
        value = convert(plain(child))
        if value is None:
            what = f"must be {wanted}; found {shown_value(key, child)}"
            findings.add(child, (*path, key), what, f"Fix it, or take `{key}` out.")
        else:
            given[key] = value
    if len(findings.problems) == before:
        _check_whole(given, node, path, bases, findings)
    return SidecarSpec(name=name, **given) if len(findings.problems) == before else None


def _check_whole(given: dict[str, Any], node: Node, path: Key, bases: Sequence[Path], findings: Findings) -> None:
    if "port" not in given:
        findings.add(node, path, "has no `port`", "Write the port on which it listens in its container: `port: 6379`.")
    if not any(key in given for key in ("image", "build", "command")):
        what = "has nothing to run: no `image`, no `build`, no `command`"
        findings.add(node, path, what, "Write `image` or `build` for containers, `command` for the local runtime.")
    if "image" in given and "build" in given:
        findings.add(node, path, "has both `image` and `build`", "Keep one of them.")
    elif "build" in given:
        folder = next((base / given["build"] for base in bases if is_file(base / given["build"] / "Dockerfile")), None)
        if folder is None:
            what = f"there is no Dockerfile in `{given['build']}`"
            findings.add(node, (*path, "build"), what, "Name a folder that has one, relative to this file.")
        else:
            given["build"] = str(folder.resolve())
    if "command" in given:
        given["command"] = tuple(_beside(word, bases) for word in given["command"])
    _check_secrets(given, node, path, findings)
    given["volumes"] = tuple(_absolute(one, bases[0]) for one in given.get("volumes", ()))


def _beside(word: str, bases: Sequence[Path]) -> str:
    """`./start.sh` is a file beside the configuration, or in the server's folder: a service runs in another one."""
    found = next((base / word for base in bases if word.startswith("./") and is_file(base / word)), None)
    return str(found.resolve()) if found else word


def _check_secrets(given: dict[str, Any], node: Node, path: Key, findings: Findings) -> None:
    """Everyone on a machine can read the command lines of others."""
    secrets = {key: value for key, value in given.get("env", {}).items() if value and is_secret_key(key)}
    lines = {key: given.get(key, ()) for key in ("arguments", "command")}
    for place, words in (lines | {"health": given.get("health", SidecarHealth()).command}).items():
        for key, value in secrets.items():
            if any(value in word for word in words):
                hint = f"Let the program read the variable {key}, in a container the file that {key}_FILE names."
                findings.add(node.child(place) or node, (*path, place), f"holds the value of the secret {key}", hint)


def _absolute(volume: str, base: Path) -> str:
    """A path of this machine is relative to the file that says so; a name is a volume of the stack."""
    source, _, rest = volume.partition(":")
    return f"{(base / Path(source).expanduser()).resolve()}:{rest}" if source[0] in "./~" else volume


def _text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) and value.strip() else None


def _image(value: Any) -> str | None:
    text = _text(value)
    return text if text and not re.search(r"\s", text) else None


def _port(value: Any) -> int | None:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 65536 else None


def _words(value: Any) -> tuple[str, ...] | None:
    """A command line, or its words."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value)) or None
        except ValueError:
            return None
    if isinstance(value, list) and value and all(isinstance(one, (str, int, float)) for one in value):
        return tuple(map(str, value))
    return None


def _health(value: Any) -> SidecarHealth | None:
    if value in ("tcp", "none", "http"):
        return SidecarHealth(kind=value)
    if isinstance(value, str) and value.startswith("/"):
        return SidecarHealth(kind="http", path=value)
    words = _words(value)
    return SidecarHealth(kind="command", command=words) if words else None


def _env(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict) or any(isinstance(one, (dict, list, type(None))) for one in value.values()):
        return None
    return {str(name): str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def _volumes(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    whole = all(isinstance(one, str) and _VOLUME.fullmatch(one) for one in value)
    return tuple(value) if whole else None


def _cpus(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def read_memory(value: Any) -> str | None:
    return str(value) if not isinstance(value, bool) and _MEMORY.fullmatch(str(value)) else None


_KEYS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "image": ("the name of an image, such as `redis:7`", _image),
    "build": ("the path of a folder with a Dockerfile", _text),
    "arguments": ("a command line, or a list of its words", _words),
    "command": ("a command line, such as `redis-server --port ${port}`, or a list of its words", _words),
    "port": ("a number from 1 to 65535", _port),
    "health": ("tcp, http, none, the path of a URL, or a command", _health),
    "env": ("a mapping of names to texts", _env),
    "volumes": ("a list of NAME:/path or ./path:/path:ro", _volumes),
    "cpus": ("a number above 0, such as 0.5", _cpus),
    "memory": ("a size, such as 512m or 2g", read_memory),
}
