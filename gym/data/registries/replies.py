"""What a registry's refusal means for the user: which key is missing, wrong or not allowed to."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from gym.data.registries.access import Access, how_to_set
from gym.errors import GymError, InfraError, UserError

BUSY: Final = frozenset({429, 502, 503, 504})
MAX_WAIT: Final = 300.0


def refusal(what: str, status: int, key: str, access: Access, detail: str = "") -> GymError:
    """`key` names the credential: `hf_token` or `mlflow_tracking_token`. `detail` is the registry's own sentence."""
    said = f": {detail}" if detail else ""
    has_token = bool(getattr(access, key))
    if status == 401:
        state = f"does not accept the token of `{key}`" if has_token else f"asks for a token, and `{key}` is not set"
        return UserError(f"{what}: the registry {state} (401)", how_to_set(key))
    if status == 403:
        who = f"the token of `{key}`" if has_token else f"a caller without `{key}`"
        return UserError(f"{what}: the registry does not allow this to {who} (403){said}", how_to_set(key))
    if status == 404:
        hint = (
            f"Look: gym data ls {what.partition(': ')[0]}" if has_token else f"Where it is private: {how_to_set(key)}"
        )
        return UserError(f"{what}: there is no such data set, version or file (404){said}", hint)
    if status in BUSY:
        return InfraError(f"{what}: the registry is busy ({status}){said}", "Run the same command again later.")
    if status >= 500:
        return InfraError(f"{what}: the registry failed ({status}){said}", "Run the same command again later.")
    return UserError(f"{what}: the registry refused it ({status}){said}")


def wait_asked(header: str | None, now: float) -> float | None:
    """Seconds of a `Retry-After`; None where it says nothing that can be followed."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except ValueError:
            return None
    return min(max(seconds, 0.0), MAX_WAIT)
