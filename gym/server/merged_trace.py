"""One trace of a session out of the parts that the replicas hold, and whether a part is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gym.server.siblings import SiblingReply
from gym.server.trace_store import trace_lost
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import write_json


@dataclass(slots=True)
class MergedTrace:
    """The calls of one session, from all replicas."""

    session_id: str
    model: str
    calls: list[tuple[float, bytes]] = field(default_factory=list)
    not_recorded: int = 0
    in_flight: int = 0
    holding: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)
    unsure: dict[str, float] = field(default_factory=dict)  # URL -> age of the trace whose claim it did not answer

    def add(self, mark: str, age: float, holders: set[str], unsure: set[str], calls: list[tuple[float, bytes]]) -> None:
        self.holding.add(mark)
        self.expected |= holders
        self.unsure |= {url: max(age, self.unsure.get(url, 0.0)) for url in unsure}
        self.calls += calls

    def add_sibling(self, sibling: SiblingReply) -> None:
        if sibling.reply is None:
            return
        if sibling.reply.status >= 400:
            raise error_from_reply(sibling.reply.status, sibling.reply.body, server=self.model, kind="model")
        fields = sibling.fields
        if not fields.get("held"):
            return
        calls = [(float(one["started_at"]), write_json(_without_index(one))) for one in fields["calls"]]
        holders, unsure = set(fields["holders"]), set(fields["unsure"])
        self.add(sibling.mark, float(fields["trace_age"]), holders, unsure, calls)
        self.not_recorded += int(fields["not_recorded"])
        self.in_flight += int(fields["in_flight"])

    def check(self, replies: list[SiblingReply], why_gone: str) -> None:
        """Raises a failure that says what is missing where the trace is not whole."""
        silent = [one.url for one in replies if one.reply is None]
        if not self.holding:
            if silent or why_gone:
                raise trace_lost(self.session_id, why_gone or f"{', '.join(silent)} did not answer")
            what = f"no call of a session {self.session_id!r} was recorded by {self.model}"
            raise RolloutError("lost_session", what, retryable=False, status=404)
        if self.expected - self.holding:
            raise trace_lost(self.session_id, "a replica that had calls of it has gone, or was restarted")
        by_url = {one.url: one for one in replies}
        for url, age in self.unsure.items():
            one = by_url.get(url)
            if one is not None and (one.reply is None or float(one.fields.get("age") or 0.0) < age):
                raise trace_lost(self.session_id, f"{url} may have had calls of it, and has gone or was restarted")

    def summary(self) -> dict[str, Any]:
        counts = {"not_recorded": self.not_recorded, "in_flight": self.in_flight}
        whole = not self.not_recorded and not self.in_flight
        return {"session_id": self.session_id, "model_server": self.model, "complete": whole, **counts}


def _without_index(call: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "index"}
