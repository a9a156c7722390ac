from layers.environ import read_environ
from layers.merge import merge
from layers.settings import Settings

__all__ = ["Settings", "merge", "read_environ"]
