"""`${…}` -> values: other keys (absolute or relative), the environment, and the resolvers of OmegaConf.

Every reference that cannot be followed is a problem at the place where it is written; none is reported twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gym.config.aliases import SERVER_TYPES
from gym.config.late_references import is_of_sidecar
from gym.config.nodes import (
    BROKEN,
    MAX_DEPTH,
    MISSING,
    Findings,
    Node,
    Path,
    children,
    did_you_mean,
    dotted,
    find,
    located,
    plain,
    walk,
)
from gym.config.values import GrammarError, Interpolation, has_reference, parse_template, parse_value, split_arguments
from gym.config.yaml_source import parse_yaml
from gym.errors import ConfigError

_RESOLVER = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:(.*)", re.DOTALL)
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")
_MAX_TEXT = 1_000_000


class _Unresolved(Exception):
    """A reference that leads nowhere; `what` is empty when its problem is reported already."""

    def __init__(self, what: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class Resolver:
    """Follows the references of one tree; each place is resolved once."""

    def __init__(self, root: Node, environ: Mapping[str, str], findings: Findings) -> None:
        self._root = root
        self._environ = environ
        self._findings = findings
        self._known: dict[Path, Node] = {}
        self._open: list[Path] = []
        self._resolvers: dict[str, Callable[[list[str], Path], Node]] = {
            "oc.env": self._env,
            "env": self._env,
            "oc.select": self._select,
            "oc.decode": self._decode,
            "oc.create": self._create,
            "oc.dict.keys": lambda arguments, path: self._dict_part(arguments, path, 0),
            "oc.dict.values": lambda arguments, path: self._dict_part(arguments, path, 1),
        }

    def whole(self) -> Node:
        return self._resolve(self._root, ())

    def at(self, path: Path) -> Node | None:
        """The resolved node at a path; references on the way are followed."""
        node, resolved = self._root, False
        for depth, part in enumerate(path):
            if not resolved and has_reference(node.value):
                node, resolved = self._resolve(node, path[:depth]), True
            if not node.known:
                return node
            found = node.child(part)
            if found is None:
                return None
            node = found
        return node if resolved else self._resolve(node, path)

    def _resolve(self, node: Node, path: Path) -> Node:
        if path in self._known:
            return self._known[path]
        if path in self._open:
            ring = [*self._open[self._open.index(path) :], path]
            raise _Unresolved(
                f"refers to itself: {' -> '.join(dotted(one) for one in ring if one)}", "Break the circle."
            )
        if len(self._open) > MAX_DEPTH:
            raise _Unresolved(f"is nested deeper than {MAX_DEPTH} levels", "Flatten it.")
        self._open.append(path)
        try:
            done = self._resolve_value(node, path)
        except _Unresolved as error:
            if error.what:
                self._findings.add(node, path, error.what, error.hint)
            done = replace(node, value=BROKEN)
        except GrammarError as error:
            self._findings.add(
                node, path, str(error), "Close it with `}`, or write `\\${` for the characters themselves."
            )
            done = replace(node, value=BROKEN)
        finally:
            self._open.pop()
        self._known[path] = done
        return done

    def _resolve_value(self, node: Node, path: Path) -> Node:
        if isinstance(node.value, dict):
            return replace(node, value={str(key): self._resolve(one, (*path, key)) for key, one in children(node)})
        if isinstance(node.value, list):
            return replace(node, value=[self._resolve(one, (*path, key)) for key, one in children(node)])
        return self._text(node.value, path, node) if has_reference(node.value) else node

    def _text(self, text: str, path: Path, node: Node) -> Node:
        parts = parse_template(text)
        if len(parts) == 1 and isinstance(parts[0], Interpolation):
            found = self._follow(parts[0].inner, path)
            return Node(found.value, node.file, node.line) if not isinstance(found.value, (dict, list)) else found
        return replace(node, value=self._join(parts, path))

    def _join(self, parts: list[str | Interpolation], path: Path) -> str:
        words: list[str] = []
        for part in parts:
            words.append(part if isinstance(part, str) else str(plain(self._usable(part.inner, path))))
            if sum(map(len, words)) > _MAX_TEXT:
                raise _Unresolved(f"expands to more than {_MAX_TEXT:,} characters", "Shorten it.")
        return "".join(words)

    def _usable(self, inner: str, path: Path) -> Node:
        found = self._follow(inner, path)
        if not found.known:
            raise _Unresolved()
        if isinstance(found.value, (dict, list)):
            kind = "mapping" if isinstance(found.value, dict) else "list"
            raise _Unresolved(f"`${{{inner}}}` is a {kind} and cannot be put into a text", "Refer to a key inside it.")
        return found

    def _follow(self, inner: str, path: Path) -> Node:
        if is_of_sidecar(inner, path):
            return Node(f"${{{inner.strip()}}}")
        resolver = _RESOLVER.fullmatch(inner)
        if resolver is not None:
            return self._call(resolver[1], resolver[2], path)
        if has_reference(inner):
            inner = self._join(parse_template(inner), path)
        target = _absolute(inner, path)
        if target is None:
            raise _Unresolved(f"`${{{inner}}}` is not a reference", "Write `\\${` for the characters themselves.")
        found = self.at(target)
        if found is not None:
            return found
        if len(target) == 1 and _ENVIRONMENT.fullmatch(inner.strip()):
            return self._from_environment(inner.strip())
        raise _Unresolved(f"`${{{inner}}}` refers to `{dotted(target)}`, which is nowhere", self._advice(target))

    def _advice(self, target: Path) -> str:
        depth = next((n for n in range(len(target)) if find(self._root, target[: n + 1]) is None), 0)
        parent = find(self._root, target[:depth])
        there = parent.value if parent and isinstance(parent.value, dict) else {}
        is_last = depth == len(target) - 1
        names = [key for key, node in there.items() if not (is_last and _is_server(node))]
        close = did_you_mean(str(target[depth]), names)
        way = f"Set it: {dotted(target)}=VALUE on the command line, or in env.yaml."
        return f"{close} {way}".strip()

    def _from_environment(self, name: str) -> Node:
        value = self._environ.get(name)
        if value is None:
            hint = f"Set it: {name}=VALUE on the command line or in env.yaml, or `export {name}=…`."
            raise _Unresolved(f"`${{{name}}}` is neither a key nor an environment variable", hint)
        return Node(_utf8(value, name))

    def _call(self, name: str, rest: str, path: Path) -> Node:
        resolver = self._resolvers.get(name)
        if resolver is None:
            names = [*self._resolvers, "service", "inherit_from", "copy"]
            if name in ("inherit_from", "copy"):
                raise _Unresolved(
                    f"`${{{name}:…}}` must be the whole value of a key", f"Write `key: ${{{name}:path}}`."
                )
            hint = did_you_mean(name, names) or f"Known: {', '.join(names)}; `\\${{` stands for the characters."
            raise _Unresolved(f"`{name}` is not a resolver", hint)
        return resolver(split_arguments(rest), path)

    def _argument(self, text: str, path: Path) -> str:
        joined = self._join(parse_template(text), path) if has_reference(text) else text
        quoted = len(joined) > 1 and joined[0] == joined[-1] and joined[0] in "'\""
        return joined[1:-1] if quoted else joined

    def _default(self, text: str, path: Path) -> Node:
        """An argument as a value; a reference in it gives its value and adds no syntax."""
        return self._filled(located(_value(text), ""), path)

    def _filled(self, node: Node, path: Path) -> Node:
        if isinstance(node.value, dict):
            return replace(node, value={key: self._filled(one, path) for key, one in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self._filled(one, path) for one in node.value])
        return self._text(node.value, path, node) if has_reference(node.value) else node

    def _env(self, arguments: list[str], path: Path) -> Node:
        name = self._argument(arguments[0], path)
        value = self._environ.get(name)
        if value is not None:
            return Node(_utf8(value, name))
        if len(arguments) > 1:
            default = self._default(arguments[1], path)
            if any(node.value is BROKEN for _, node in walk(default)):
                raise _Unresolved()
            if default.value != MISSING:  # a variable is text, and so is its default
                return Node(None if default.value is None else str(plain(default)))
        hint = f"`export {name}=…`, or give a default: ${{oc.env:{name},VALUE}}."
        raise _Unresolved(f"the environment variable `{name}` is not set", hint)

    def _select(self, arguments: list[str], path: Path) -> Node:
        target = _absolute(self._argument(arguments[0], path), path)
        found = self.at(target) if target else None
        if found is not None and found.value != MISSING:
            return found
        return self._default(arguments[1], path) if len(arguments) > 1 else Node(None)

    def _decode(self, arguments: list[str], path: Path) -> Node:
        found = self._default(arguments[0], path)
        return located(_value(found.value), "") if isinstance(found.value, str) else found

    def _create(self, arguments: list[str], path: Path) -> Node:
        found = self._default(",".join(arguments), path)
        if isinstance(found.value, str) and found.known:
            found = self._filled(_yaml(found.value), path)
        if isinstance(found.value, (int, float)):
            raise _Unresolved("`oc.create` makes a mapping or a list", "Write the value without `oc.create`.")
        return found

    def _dict_part(self, arguments: list[str], path: Path, part: int) -> Node:
        target = _absolute(self._argument(arguments[0], path), path)
        found = find(self._root, target) if target and part == 0 else None
        if found is None or not isinstance(found.value, dict):  # keys alone: the values may refer to them
            found = self.at(target) if target else None
        if found is None or not isinstance(found.value, dict):
            raise _Unresolved(f"`{arguments[0]}` is not a mapping", "Name a key that holds one.")
        return Node([Node(pair[0]) if part == 0 else pair[1] for pair in found.value.items()])


def _is_server(node: Node) -> bool:
    """A whole server is not a value that a field may have been meant to get."""
    return isinstance(node.value, dict) and not node.value.keys().isdisjoint(SERVER_TYPES)


def _absolute(text: str, path: Path) -> Path | None:
    """`a.b[c]` from the root, `.a` beside the reference, `..a` one level further out."""
    text = re.sub(r"\[\s*['\"]?([^\[\]'\"]+?)['\"]?\s*\]", r".\1", text.strip())
    dots = len(text) - len(text.lstrip("."))
    if dots > len(path):
        return None
    base: Path = path[: len(path) - dots] if dots else ()
    names = text[dots:].split(".") if text[dots:] else []
    if not names or any(not name.strip() or re.search(r"[\s{}$\\]", name.strip()) for name in names):
        return None
    return (*base, *(name.strip() for name in names))


def _value(text: str) -> Any:
    try:
        return parse_value(text)
    except GrammarError as error:
        raise _Unresolved(f"a value cannot be read: {error}", "Quote text that holds brackets or quotes.") from None


def _yaml(text: str) -> Node:
    try:
        return parse_yaml(text, "oc.create")
    except ConfigError as error:
        what = f"`oc.create` cannot read a text as a mapping in YAML: {error.problems[0].what}"
        raise _Unresolved(what, "Write the value without `oc.create`.") from None


def _utf8(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Unresolved(f"the environment variable `{name}` is not UTF-8 text", "Set it again.") from None
    return value
