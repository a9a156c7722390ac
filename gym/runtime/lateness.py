"""How long servers may take to get healthy, and what to say of those that did not: the same words on every runtime.

Pure. A server that is late stays up, as the rest does: it goes on starting, and is routed once it is healthy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gym.errors import NotUp
from gym.labels import stack_option
from gym.runtime.status import ReplicaState

LEAST_SECONDS = 120.0
# An SDK server's first answer costs 0.6 to 0.7 s of CPU (measured: mcqa, simple_weather): ten leave room for what
# an author imports, and for a machine that has other things to do.
CORE_SECONDS_EACH = 10.0
MAX_EARLY_EXITS = 3  # ended so often before it was healthy even once, a server will not come up by itself
OTHERS_LINES = 2  # an error and what to do


@dataclass(frozen=True)
class Late:
    """A server that is not healthy yet."""

    replica: str
    state: str
    seconds: float  # since its process or container was last started
    detail: str = ""
    log: str = ""
    early_exits: int = 0  # unasked, before it was healthy


def start_seconds(servers: int, cores: int) -> float:
    """The default of `--timeout`: all of them start at once and share the cores."""
    return max(LEAST_SECONDS, round(CORE_SECONDS_EACH * servers / max(1, cores)))


def unhealthy_before(
    states: Mapping[str, ReplicaState], early_exits: Mapping[str, int], asked: Collection[str]
) -> frozenset[str]:
    """Names of those that failed before a change, but for the `asked` ones: the change does not wait for them."""
    return frozenset(
        name
        for name, state in states.items()
        if name not in asked and (state in ("unhealthy", "restarting", "exited") or early_exits.get(name))
    )


def not_in_time(late: Sequence[Late], *, total: int, timeout: float, stack: str) -> NotUp:
    """The deadline is over. `late` is not empty; the first of them gives its name to the error."""
    first = late[0]
    what = f"not healthy after {timeout:g} s ({first.detail or first.state}); its last line:"
    others = [_line(one) for one in late[1:]]
    log = "\n".join([_last_line(first), *others])
    option = stack_option(stack)
    rest = total - len(late)
    hint = (
        f"{_the_rest(rest)} {'It goes' if len(late) == 1 else 'They go'} on starting and"
        f" {'is' if len(late) == 1 else 'are'} routed once healthy: gym ps{option}\n"
        f"To wait longer: --timeout {max(2 * timeout, LEAST_SECONDS):g}."
        f" All of its log: gym logs {first.replica}{option}. To stop everything: gym down{option}"
    )
    return NotUp(first.replica, what, log, hint)


def ends_at_each_start(late: Sequence[Late], *, healthy: int, stack: str) -> NotUp:
    """Reported at once: no deadline would help. `late` are all that are not healthy; some only start still."""
    ended = sorted((one for one in late if one.early_exits), key=lambda one: -one.early_exits)
    first, others, waiting = ended[0], ended[1:], len(late) - len(ended)
    option = stack_option(stack)
    what = f"ended {_times(first)} while it started ({first.detail}); its last lines:"
    log = "\n".join([first.log or "(it wrote nothing)", *map(_ended_too, others)])
    starting = f" {waiting} still {'starts' if waiting == 1 else 'start'}." if waiting else ""
    logs = " ".join(one.replica for one in ended)
    hint = (
        f"{_the_rest(healthy)}{starting} Fix {'them' if others else 'it'}, then type the same command again:"
        " only what differs is replaced.\n"
        f"All of {'their logs' if others else 'its log'}: gym logs {logs}{option}. To stop everything: gym down{option}"
    )
    return NotUp(first.replica, what, log, hint)


def _ended_too(one: Late) -> str:
    said = "\n".join(one.log.strip().splitlines()[-OTHERS_LINES:]) or "(it wrote nothing)"
    return f"{one.replica}: ended {_times(one)}, too ({one.detail or 'it starts'}); its last lines:\n{said}"


def _times(one: Late) -> str:
    return "once" if one.early_exits == 1 else f"{one.early_exits} times"


def _the_rest(healthy: int) -> str:
    return f"The other {healthy} stay up." if healthy > 1 else "The other one stays up." if healthy else ""


def _line(one: Late) -> str:
    return f"{one.replica}: {one.state} for {one.seconds:.0f} s ({one.detail or 'no answer yet'}): {_last_line(one)}"


def _last_line(one: Late) -> str:
    lines = one.log.strip().splitlines()
    return lines[-1] if lines else "(it wrote nothing)"
