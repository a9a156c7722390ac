"""Patterns of paths, and how specific each is."""

import re
from dataclasses import dataclass

PLACEHOLDER = re.compile(r"^<(?:(?P<kind>int|path):)?(?P<name>[a-z_][a-z0-9_]*)>$")
RANKS = {"literal": 0, "int": 1, "str": 2, "path": 3}


class BadPattern(ValueError):
    pass


@dataclass(frozen=True)
class Part:
    kind: str
    text: str

    def convert(self, given):
        """The value for the handler, or None when it does not fit."""
        if self.kind == "literal":
            return given if given == self.text else None
        if self.kind == "int":
            return int(given) if given.isdigit() else None
        return given or None


@dataclass(frozen=True)
class Pattern:
    source: str
    parts: tuple

    @classmethod
    def parse(cls, source):
        if not source.startswith("/"):
            raise BadPattern(f"{source!r} does not begin with a slash")
        parts = tuple(_parse_part(text, source) for text in split(source))
        names = [part.text for part in parts if part.kind != "literal"]
        if len(set(names)) != len(names):
            raise BadPattern(f"{source!r} names a placeholder twice")
        if any(part.kind == "path" for part in parts[:-1]):
            raise BadPattern(f"{source!r}: <path:...> can only be the last part")
        return cls(source, parts)

    @property
    def rank(self):
        return sum(RANKS[part.kind] for part in self.parts)

    def match(self, pieces):
        """The arguments for these pieces of a path, or None."""
        args = {}
        for index, part in enumerate(self.parts):
            if part.kind == "path":
                rest = "/".join(pieces[index:])
                if not rest:
                    return None
                args[part.text] = rest
                return args
            if index >= len(pieces):
                return None
            value = part.convert(pieces[index])
            if not value:
                return None
            if part.kind != "literal":
                args[part.text] = value
        return args if len(pieces) == len(self.parts) else None


def split(path):
    return [piece for piece in path.split("/") if piece]


def _parse_part(text, source):
    found = PLACEHOLDER.match(text)
    if found:
        return Part(found["kind"] or "str", found["name"])
    if "<" in text or ">" in text:
        raise BadPattern(f"{source!r}: {text!r} is no placeholder")
    return Part("literal", text)
