"""Secrets that a server was given, kept out of what it says when something breaks: its log and its failures."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote

from gym.labels import REDACTED
from gym.server.config import Settings
from gym.wire.failures import RolloutError

NAMED: Final = re.compile(r"((api|access|private)_?keys?|token|(secret|password|credential)s?|passwd|passphrase)$")
SHORTEST: Final = 8  # shorter ones ("EMPTY", "dummy") are words that stand elsewhere by right


class OwnSecrets:
    """Whatever stands under a name that says so, and the token for sandboxes: as it is, and as a URL writes it."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST}
        self._known = sorted(known | {quote(value, safe="") for value in known}, key=len, reverse=True)

    @classmethod
    def of(cls, settings: Settings, environ: Mapping[str, str]) -> Self:
        trees = (dict(environ), settings.document, settings.fields)
        return cls([settings.sandbox_token, *(value for tree in trees for value in _named(tree))])

    def mask(self, text: str) -> str:
        for value in self._known:
            text = text.replace(value, REDACTED)
        return text

    def mask_failure(self, failure: RolloutError) -> RolloutError:
        failure.what = failure.message = self.mask(failure.message)
        return failure

    def mask_logs(self, logger: logging.Logger) -> None:
        for handler in logger.handlers:
            handler.setFormatter(_Masking(handler.formatter or logging.Formatter(), self))


class _Masking(logging.Formatter):
    def __init__(self, inner: logging.Formatter, secrets: OwnSecrets) -> None:
        super().__init__()
        self._inner = inner
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Last of all: a traceback has the words of its error too."""
        return self._secrets.mask(self._inner.format(record))


def _named(tree: Any, secret: bool = False) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _named(value, secret or NAMED.search(str(key).lower()) is not None)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _named(value, secret)
    elif secret and isinstance(tree, str):
        yield tree
