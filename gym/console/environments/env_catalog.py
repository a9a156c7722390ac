"""The environments there are: folders of servers that this machine has, and those that the stack runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gym import __version__
from gym.config.catalog import CatalogEntry, ServerFolder, list_servers, read_server
from gym.config.strict import VERIFIERS, declares_strict
from gym.console.discovery_sources import ServerFacts
from gym.console.environments.audit_figures import read_audits
from gym.console.environments.env_files import README, leads_out
from gym.console.pages.shell import NotThere
from gym.files import own_root
from gym.wire.catalog_copy import AUDITS, CopiedEnvironment, read_catalog

FRESH_SECONDS: Final = 10.0
ALONE: Final = (
    "No folders of environments are seen from here, as a container's image holds none: those that the stack runs are "
    "all that is listed. gym list shows the others in a terminal, gym view in a browser."
)
Json = dict[str, Any]


class EnvCatalog:
    """Its methods read files, so they run in threads."""

    def __init__(self, roots: Sequence[Path], copies: Path | None = None) -> None:
        """`roots`: where servers are looked for; `copies`: a folder of `gym.wire.catalog_copy` instead of them."""
        self._roots = roots
        self._copies = copies
        self._copied: dict[str, CopiedEnvironment] = {}
        self._entries: dict[str, CatalogEntry] = {}
        self._read = float("-inf")
        self._lock = threading.Lock()

    def entries(self, running: Mapping[str, ServerFacts]) -> dict[str, CatalogEntry]:
        """By name, each once; `running`: the instances of the stack, whose own folders come first."""
        found = dict(self._known())
        for facts in running.values():
            if facts.type == VERIFIERS:
                found[facts.implementation] = _entry_of(facts, found.get(facts.implementation))
        return dict(sorted(found.items()))

    def lacks(self) -> str:
        """Said where no folder of servers can be seen, as in a console's container."""
        return "" if self._known() else ALONE

    def find(self, name: str, running: Mapping[str, ServerFacts]) -> CatalogEntry:
        found = self.entries(running).get(name)
        if found is None:
            raise NotThere(f"there is no environment {name[:200]!r} here; gym list shows those of this machine")
        return found

    def facts(self, entry: CatalogEntry, running: Mapping[str, ServerFacts]) -> Json:
        """How it is started, whether it can be strict, what is not shown of it."""
        copy = self._copied.get(entry.name) if entry.config is None else None
        strict = copy.strict if copy else entry.directory.is_dir() and declares_strict(entry.directory)
        start = f"gym up {entry.name} --model NAME" if entry.config or (copy and copy.starts) else ""
        folders = {running[one].directory for one in instances_of(entry.name, running)} - {"", copy and copy.source}
        source = Path(copy.source) if copy else entry.directory
        return {"start": start, "strict": strict, "missing": _missing(entry, source, folders)}

    def audits(self, name: str) -> list[dict[str, str]]:
        return read_audits((self._copies or own_root()) / AUDITS).get(name, [])

    def _known(self) -> dict[str, CatalogEntry]:
        with self._lock:
            if time.monotonic() - self._read > FRESH_SECONDS:
                self._copied = read_catalog(self._copies).root if self._copies else {}
                folder = self._copies or Path()
                found = {name: _entry_of_copy(folder, name, one) for name, one in self._copied.items()}
                self._entries = found or {one.name: one for one in list_servers(self._roots) if one.type == VERIFIERS}
                self._read = time.monotonic()
            return self._entries


def instances_of(name: str, running: Mapping[str, ServerFacts]) -> list[str]:
    """What the stack calls it; an environment may run several times."""
    return [one for one, facts in running.items() if facts.type == VERIFIERS and facts.implementation == name]


def entry_view(entry: CatalogEntry, instances: Sequence[str]) -> Json:
    facts = {"domain": entry.domain, "kind": entry.kind, "licence": entry.licence, "description": entry.description}
    if leads_out(entry.directory, README):  # what is said of it may come from there
        facts = dict.fromkeys(facts, "")
    return {"name": entry.name, **facts, "aliases": list(entry.aliases), "instances": list(instances)}


def _entry_of(facts: ServerFacts, known: CatalogEntry | None) -> CatalogEntry:
    folder = Path(facts.directory)
    if facts.directory and folder.is_dir():
        return read_server(ServerFolder(VERIFIERS, folder, facts.implementation))
    return known or CatalogEntry(facts.implementation, VERIFIERS, facts.implementation, folder)


def _entry_of_copy(copies: Path, name: str, copy: CopiedEnvironment) -> CatalogEntry:
    known = copy.model_dump(include={"domain", "kind", "licence", "description", "aliases"})
    return CatalogEntry(name, VERIFIERS, name, copies / name, **known)


def _missing(entry: CatalogEntry, source: Path, folders: Iterable[str]) -> str:
    """Why less is shown than there is, or another version of it. `folders`: what the stack's own were made from."""
    unseen = sorted(one for one in folders if not Path(one).is_dir())
    if not unseen:
        return ""
    what = f"The stack's {entry.name} was made from {unseen[0]}, which this console does not see"
    if not entry.directory.is_dir():
        return f"{what}: it has no README, rows or cases to show. gym view, typed where that folder is, shows them."
    if source.is_relative_to(own_root()):
        return f"{what}: files are shown as compose-gym {__version__} brought them."
    return f"{what}: files are shown as they are in {source}."
