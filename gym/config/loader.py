"""A request -> a `Stack`: files found and read, merged, resolved, checked. Raises ConfigError with every problem.

Reads files and nothing else; the environment is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym.config.aliases import SERVER_TYPES
from gym.config.assets import search_roots, shown_path, unique_paths
from gym.config.catalog import ServerFolder, config_names, find_configs, server_folders
from gym.config.default_agent import add_default_agents
from gym.config.directives import expand_directives
from gym.config.field_checks import check_missing, find_drafts, in_doubt
from gym.config.grants import check_broker
from gym.config.includes import ConfigPath, Includes
from gym.config.instance_keys import CONFIG_PATHS
from gym.config.interpolate import Resolver
from gym.config.model import Instance, StackConfig
from gym.config.nodes import (
    COMMAND_LINE,
    MAX_VALUES,
    Findings,
    Node,
    count_values,
    delete_at,
    describe,
    did_you_mean,
    merge,
    merge_all,
    plain,
)
from gym.config.overrides import Override, apply_overrides, overrides_alone, parse_overrides
from gym.config.policy_model import choose_policy, join_aliases, name_policy
from gym.config.read_sidecars import check_service_references
from gym.config.server_sources import satisfied_extras
from gym.config.share import apply_share, read_share
from gym.config.stack_builder import Surroundings, apply_replicas, build_instances
from gym.config.strict import apply_strict, read_strict
from gym.config.unlisted import unlisted_problem
from gym.config.yaml_source import read_yaml
from gym.errors import ConfigError
from gym.labels import ROUTER_PORT
from gym.wire.server_types import ServerType

_MODELS: tuple[ServerType, ...] = ("responses_api_models",)


@dataclass(frozen=True)
class LoadRequest:
    """What was typed, and where. No roots: the usual ones."""

    names: tuple[str, ...] = ()
    model: str | None = None
    files: tuple[str | Path, ...] = ()
    overrides: tuple[str, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)
    cwd: Path = field(default_factory=Path.cwd)
    roots: tuple[Path, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False  # every verifier's strict mode, as `strict: true` in a file
    share: bool | None = None  # whether agents of one server live in one process, as `share` in a file
    extras: frozenset[str] | None = None  # of the SDK; None: those that are installed here
    without_models: bool = False  # nothing is to be started, so a judge without a name is not a mistake


def load_stack(request: LoadRequest) -> StackConfig:
    """The whole stack, or ConfigError with everything that is wrong with it."""
    findings = Findings()
    try:
        stack = _Loading(request, findings).load()
    except RecursionError:
        findings.add(None, "", "the configuration is nested too deeply", "Flatten it.")
        stack = StackConfig()
    _stop_on(findings)
    return stack


def _stop_on(findings: Findings) -> None:
    if findings.problems:
        count = len(findings.problems)
        hint = (
            "Fix it and run the same command again."
            if count == 1
            else f"{count} problems. Fix them and run the same command again."
        )
        raise ConfigError(findings.problems, hint)


def _folders_of(request: LoadRequest) -> Iterator[Path]:
    """A file that is named is found with its server, wherever the two lie."""
    for path in (request.cwd / one for one in request.files):
        yield path.parent.parent if path.parent.name == "configs" else path.parent


class _Loading:
    def __init__(self, request: LoadRequest, findings: Findings) -> None:
        self._request = request
        self._findings = findings
        roots = request.roots or search_roots(request.cwd, request.environ)
        self._roots = unique_paths([*roots, *_folders_of(request)])
        self._folders: tuple[ServerFolder, ...] = tuple(server_folders(self._roots))

    def load(self) -> StackConfig:
        typed_strict = ("++strict=true",) if self._request.strict else ()
        share = self._request.share
        typed_share = (f"++share={'true' if share else 'false'}",) if share is not None else ()
        overrides = parse_overrides((*self._request.overrides, *typed_strict, *typed_share), self._findings)
        env = self._read_env()
        typed = overrides_alone(overrides)
        includes = self._includes(merge(env, typed))
        includes.add([*self._named(), *self._files(), *includes.listed(includes.context)])
        _stop_on(self._findings)
        tree = self._merged(includes, env, overrides)
        _stop_on(self._findings)
        return self._stack(self._resolved(tree), includes)

    def _includes(self, context: Node) -> Includes:
        return Includes(self._request.cwd, self._roots, self._request.environ, context, self._findings)

    def _read_env(self) -> Node:
        path = self._request.cwd / "env.yaml"
        if not path.exists():
            return Node({})
        try:
            return read_yaml(path, shown_path(path, self._request.cwd))
        except ConfigError as error:
            self._findings.problems += error.problems
            return Node({})

    def _named(self) -> list[ConfigPath]:
        found = [self._short_name(name, SERVER_TYPES) for name in dict.fromkeys(self._request.names)]
        return [one for one in found if one is not None]

    def _files(self) -> list[ConfigPath]:
        return [ConfigPath(str(one), Node(str(one), COMMAND_LINE)) for one in self._request.files]

    def _short_name(self, name: str, types: tuple[ServerType, ...]) -> ConfigPath | None:
        place = Node(name, COMMAND_LINE)
        if "/" in name or name.endswith((".yaml", ".yml")):
            return ConfigPath(name, place)
        paths = find_configs(name, self._folders, types)
        if not paths and (problem := unlisted_problem(name, self._roots)):
            self._findings.problems.append(problem)
            return None
        if not paths:
            kind = "model" if types == _MODELS else "server"
            hint = did_you_mean(name, config_names(self._folders, types))
            self._findings.add(
                place, "", f"There is no {kind} `{name}`", hint or "`gym list` shows the servers there are."
            )
            return None
        if len(paths) > 1:
            cwd = self._request.cwd
            others = ", ".join(shown_path(path, cwd) for path in paths[1:])
            self._findings.notice(f"`{name}` is {shown_path(paths[0], cwd)}, not {others}; name the file to choose.")
        self._warn_of_own_folder(name, paths[0])
        return ConfigPath(str(paths[0]), place)

    def _warn_of_own_folder(self, name: str, found: Path) -> None:
        """A copy of a server's folder under another name, say, whose configuration still says the first one."""
        cwd = self._request.cwd
        if not found.is_relative_to((cwd / name).resolve()) and (problem := unlisted_problem(name, [cwd])):
            why = f"{problem.file}: {problem.what}" if problem.file else problem.what
            self._findings.notice(f"`{name}` is {shown_path(found, cwd)}, and not the folder {name}: {why}")

    def _is_model(self, name: str) -> bool:
        return bool(find_configs(name, self._folders, _MODELS))

    def _merged(self, includes: Includes, env: Node, overrides: list[Override]) -> Node:
        """All sources in their order; the policy's model beneath them when it is wanted."""
        env, files = delete_at(env, (CONFIG_PATHS,)), [add_default_agents(source.tree) for source in includes.merged]
        tree = merge(merge_all(files), env)
        model = self._request.model
        if model is None:
            settled = apply_overrides(tree, overrides, Findings())
            model = choose_policy(tree, settled, self._is_model, self._findings)
        if model is None:
            return join_aliases(apply_overrides(tree, overrides, self._findings))
        wanted = self._short_name(model, _MODELS)
        beneath = self._includes(includes.context)
        beneath.add([wanted] if wanted else [])
        policy = name_policy(merge_all(source.tree for source in beneath.merged))
        includes.merged[:0] = beneath.merged
        includes.found += [one for one in beneath.found if one not in includes.found]
        tree = apply_overrides(merge(policy, tree), overrides, self._findings)
        return join_aliases(tree, policy if self._request.model else None, self._findings)

    def _resolved(self, tree: Node) -> Node:
        tree = delete_at(tree, (CONFIG_PATHS,))
        tree = expand_directives(tree, self._findings)
        self._check_size(tree)
        check_missing(tree, self._findings)
        tree = Resolver(tree, self._request.environ, self._findings).whole()
        self._check_size(tree)
        return tree if isinstance(tree.value, dict) else Node({})

    def _check_size(self, tree: Node) -> None:
        if count_values(tree) > MAX_VALUES:
            self._findings.add(None, "", f"the configuration expands to more than {MAX_VALUES:,} values", "Copy less.")
            _stop_on(self._findings)

    def _stack(self, tree: Node, includes: Includes) -> StackConfig:
        strict = tree.child("error_on_almost_servers")
        lenient = strict is not None and strict.value is False
        drafts = find_drafts(tree, self._findings, lenient=lenient)
        check_broker(tree, self._findings)
        names = {draft.name for draft in drafts}
        doubtful = [key for key, node in tree.value.items() if key not in names and in_doubt(key, node)]
        extras = satisfied_extras() if self._request.extras is None else self._request.extras
        around = Surroundings(
            self._request.cwd, self._folders, extras, () if lenient else doubtful, self._request.without_models
        )
        instances = build_instances(drafts, around, self._findings)
        instances = apply_replicas(instances, self._request.replicas, self._findings)
        if read_strict(tree, self._findings):
            instances = apply_strict(instances, self._folders, self._findings)
        share = read_share(tree, self._findings)
        if share is not None:
            instances = apply_share(instances, share)
        settings = {key: plain(node) for key, node in tree.value.items() if key not in {*names, *doubtful}}
        check_service_references(instances, settings, self._findings)
        settings["head_server"] = self._head_server(tree)
        settings[CONFIG_PATHS] = list(includes.found)
        return self._frozen(instances, settings, includes)

    def _frozen(self, instances: tuple[Instance, ...], settings: dict[str, Any], includes: Includes) -> StackConfig:
        _stop_on(self._findings)
        return StackConfig(
            instances=instances,
            settings=settings,
            files=tuple(source.shown for source in includes.merged),
            notices=tuple(self._findings.notices),
        )

    def _head_server(self, tree: Node) -> dict[str, Any]:
        """Each field has its own default; a host alone, or a port alone, is enough."""
        node, host = tree.child("head_server"), tree.child("default_host")
        defaults = {"host": (host.value if host and host.known else None) or "127.0.0.1", "port": ROUTER_PORT}
        if node is None or node.value is None or not node.known:
            return defaults
        if not isinstance(node.value, dict):
            what = f"must be a mapping; found {describe(node.value)}"
            self._findings.add(node, "head_server", what, "Write head_server: {host: 127.0.0.1, port: 11000}.")
            return defaults
        given = {key: plain(child) for key, child in node.value.items() if child.value is not None}
        return {**defaults, **given}
