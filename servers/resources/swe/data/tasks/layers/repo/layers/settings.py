"""All layers together."""

from layers.environ import read_environ
from layers.merge import merge


class Settings:
    def __init__(self, defaults, *files, environ=None, prefix="APP"):
        tree = defaults
        for one in files:
            tree = merge(tree, one)
        self._tree = merge(tree, read_environ(environ or {}, prefix, tree))

    def get(self, path, default=None):
        tree = self._tree
        for key in path.split("."):
            if not isinstance(tree, dict) or key not in tree:
                return default
            tree = tree[key]
        return tree
