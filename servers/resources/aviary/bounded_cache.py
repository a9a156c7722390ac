"""The pages that an environment keeps for all rollouts, as many as fit.

`aviary.hotpotqa` has one dictionary of every page that was ever searched for: in a server that lives for weeks it
would hold all of Wikipedia.
"""

from typing import Any

CACHES = ("wiki_cache",)  # names of such dictionaries, on the class of an environment


class BoundedCache(dict[str, str]):
    """The oldest pages go where a new one does not fit."""

    def __init__(self, max_characters: int) -> None:
        super().__init__()
        self._left = max_characters

    def __setitem__(self, key: str, page: str) -> None:
        self._left += len(self.pop(key, "")) - len(page)
        super().__setitem__(key, page)
        while self._left < 0:
            self._left += len(self.pop(next(iter(self))))


def bound_caches(environment: Any, max_characters: int) -> None:
    kind = type(environment)
    for name in CACHES:
        if type(getattr(kind, name, None)) is dict:
            setattr(kind, name, BoundedCache(max_characters))
