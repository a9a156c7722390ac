"""Why a folder is not the server whose name it bears: for who asks for that server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gym.config.aliases import SERVER_TYPES
from gym.config.assets import YAML_SUFFIXES, is_file, list_folder, shown_path
from gym.config.nodes import Node, did_you_mean
from gym.config.yaml_source import read_yaml
from gym.errors import ConfigError, Problem


def unlisted_problem(name: str, roots: Iterable[Path]) -> Problem | None:
    """What is wrong with `NAME/` below a root; None where there is no such folder with an app.py."""
    folder = next((root / name for root in roots if is_file(root / name / "app.py")), None)
    if folder is None:
        return None
    configs = [one for one in (*list_folder(folder / "configs"), *list_folder(folder)) if one.suffix in YAML_SUFFIXES]
    known: list[str] = []
    for config in configs:
        try:
            known += _servers_in(read_yaml(config, _shown(config)))
        except ConfigError as error:
            return error.problems[0]
    own = folder / "configs" / f"{name}.yaml"
    if not configs:
        return Problem(
            f"{_shown(folder)} is not a server: {_shown(own)} is missing",
            hint="gym new resources NAME makes a folder with all",
        )
    what = f"configures {', '.join(known)}, and no server `{name}`" if known else f"configures no server `{name}`"
    hint = did_you_mean(name, known) or f"write {name}: {{resources_servers: {{{name}: {{entrypoint: app.py}}}}}}"
    return Problem(what, file=_shown(configs[0]), hint=hint)


def _shown(path: Path) -> str:
    return shown_path(path, Path.cwd())


def _servers_in(tree: Node) -> list[str]:
    return [
        name
        for instance in tree.value.values()
        if isinstance(instance.value, dict)
        for type_ in SERVER_TYPES
        if (servers := instance.child(type_)) is not None and isinstance(servers.value, dict)
        for name in servers.value
    ]
