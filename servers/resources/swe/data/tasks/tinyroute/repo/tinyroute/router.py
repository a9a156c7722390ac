"""A router: patterns in, handlers out."""

from collections import namedtuple
from urllib.parse import unquote

from tinyroute.patterns import Pattern, split

Match = namedtuple("Match", "handler args pattern")


class NotFound(LookupError):
    pass


class Router:
    def __init__(self):
        self._routes = []

    def add(self, source, handler):
        pattern = Pattern.parse(source)
        self._routes.append((pattern, handler))
        self._routes.sort(key=lambda route: route[0].rank)

    def match(self, path):
        pieces = [unquote(piece) for piece in split(path)]
        for pattern, handler in self._routes:
            args = pattern.match(pieces)
            if args is not None:
                return Match(handler, args, pattern.source)
        raise NotFound(path)
