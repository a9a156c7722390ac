"""What a supervisor that was killed has left: processes that go on serving, and what discovery says of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gym.files import read_document
from gym.runtime.identity import end_processes, find_session, is_alive
from gym.runtime.local.child_process import Adopted
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import Record, find_processes, marker, read_record
from gym.wire.discovery import Discovery


@dataclass(frozen=True)
class Remains:
    record: Record | None
    generation: int = 0
    unhealthy: frozenset[str] = frozenset()  # replicas

    def adoptable(self, home: Home, listening: Mapping[str, Collection[str]]) -> Iterator[tuple[str, Adopted, str]]:
        """Processes that live and listen on sockets we still hold; and the digest of what each was made from.

        `listening`: the names of such processes, with the replicas in each.
        """
        digests = self.record.digests if self.record else {}
        found = find_processes(home, self.record)
        for name, identity in dict(reversed(found)).items():
            if name in listening:
                healthy = self.unhealthy.isdisjoint(listening[name])
                yield name, Adopted(identity, marker(home), healthy=healthy), digests.get(name, "")

    def end_others(self, home: Home, adopted: Collection[str], grace: float) -> None:
        """Processes without a supervisor: replicas that are not wanted, children of those that died."""
        kept = {one for name, one in find_processes(home, self.record) if name in adopted}
        written = self.record.processes.values() if self.record else ()
        leaders = dict.fromkeys([*written, *(one for _, one in find_processes(home, self.record))])
        others = [one for leader in leaders if leader not in kept for one in find_session(leader, marker(home))]
        end_processes([one for one in others if is_alive(one)], grace)


def read_remains(home: Home) -> Remains:
    """Read before anything is rewritten."""
    record = read_record(home)
    found = read_document(Discovery, home.discovery)
    if found is None:
        return Remains(record)
    replicas = [one for view in found.instances.values() for one in view.replicas]
    return Remains(record, found.generation, frozenset(one.id for one in replicas if not one.healthy))
