"""`${…}` -> values: other keys (absolute or relative), the environment, and the resolvers of OmegaConf.

Every reference that cannot be followed is a problem at the place where it is written; none is reported twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gym.config.aliases import SERVER_TYPES
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
)
from gym.config.values import GrammarError, closing_brace, parse_value, split_arguments

_RESOLVER = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:(.*)", re.DOTALL)
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")
_MAX_TEXT = 1_000_000


class _Unresolved(Exception):
    """A reference that leads nowhere; `what` is empty when its problem is reported already."""

    def __init__(self, what: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Reference:
    inner: str


def has_reference(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def parse_template(text: str) -> list[str | _Reference]:
    """Text and references in turn; `\\${` is text. GrammarError when a reference is never closed."""
    parts: list[str | _Reference] = []
    literal, position = "", 0
    while (start := text.find("${", position)) >= 0:
        before = text[position:start]
        bare = before.rstrip("\\")
        slashes = len(before) - len(bare)
        literal += bare + "\\" * (slashes // 2)
        if slashes % 2:
            literal, position = f"{literal}${{", start + 2
            continue
        end = closing_brace(text, start)
        if end < 0:
            raise GrammarError("`${` is never closed")
        parts += [literal, _Reference(text[start + 2 : end])] if literal else [_Reference(text[start + 2 : end])]
        literal, position = "", end + 1
    literal += text[position:]
    return [*parts, literal] if literal or not parts else parts


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
            if node.value is BROKEN or node.value == MISSING:
                return replace(node, value=BROKEN)
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
        if len(parts) == 1 and isinstance(parts[0], _Reference):
            found = self._follow(parts[0].inner, path)
            return Node(found.value, node.file, node.line) if not isinstance(found.value, (dict, list)) else found
        return replace(node, value=self._join(parts, path))

    def _join(self, parts: list[str | _Reference], path: Path) -> str:
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
            names = [*self._resolvers, "inherit_from", "copy"]
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
        if not has_reference(text):
            return located(_value(text), "")
        parts = parse_template(text)
        if len(parts) == 1 and isinstance(parts[0], _Reference):
            return self._follow(parts[0].inner, path)
        return located(_value(self._join(parts, path)), "")

    def _env(self, arguments: list[str], path: Path) -> Node:
        name = self._argument(arguments[0], path)
        value = self._environ.get(name)
        if value is not None:
            return Node(_utf8(value, name))
        if len(arguments) > 1:
            if has_reference(arguments[1]):
                return self._default(arguments[1], path)
            given = self._argument(arguments[1], path)
            if given == MISSING:
                raise _Unresolved(f"the environment variable `{name}` is not set", f"`export {name}=…`.")
            return Node(None if given == "null" == arguments[1] else given)
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
        return self._resolve_value(found, path)

    def _dict_part(self, arguments: list[str], path: Path, part: int) -> Node:
        target = _absolute(self._argument(arguments[0], path), path)
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


def _utf8(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Unresolved(f"the environment variable `{name}` is not UTF-8 text", "Set it again.") from None
    return value
