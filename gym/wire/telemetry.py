"""Whether a process reports spans, and where to: the stack's `telemetry:` block, or the OTEL_* variables of a shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from gym.errors import ConfigError, Problem

KEY: Final = "telemetry"
EXTRA: Final = "otel"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
COLLECTOR: Final = "collector"  # as its spans call it
TRACES: Final = "traces"  # the trace store of a stack of containers, by its name inside
OTLP_PORT: Final = 4318
TRACES_PATH: Final = "/v1/traces"
EXAMPLE: Final = "write `telemetry: {otlp: http://127.0.0.1:4318}`"
_FIELDS: Final = ("otlp", "content")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Off without an address. `otlp` is "" where the OTEL_* variables name it: the exporter reads them by itself."""

    on: bool = False
    otlp: str = ""  # base URL of an OTLP/HTTP receiver; spans go to /v1/traces below it
    content: bool = False  # prompts, answers and arguments of tools are reported as well

    @property
    def traces_url(self) -> str:
        base = self.otlp.rstrip("/")
        return base if not base or base.endswith(TRACES_PATH) else base + TRACES_PATH


def read_telemetry(block: Any, environ: Mapping[str, str]) -> Telemetry:
    """A block that says nothing usable is off: `check_telemetry` has reported it."""
    fields = block if isinstance(block, Mapping) else {}
    otlp, content = fields.get("otlp"), fields.get("content") is True
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER", "") == "none":
        return Telemetry()
    if any(environ.get(name) for name in ENDPOINTS):
        return Telemetry(True, "", content)
    return Telemetry(True, otlp, content) if isinstance(otlp, str) and otlp else Telemetry()


def check_telemetry(block: Any) -> None:
    """Raises ConfigError with every mistake of a `telemetry:` block."""
    if block is None:
        return
    if not isinstance(block, Mapping):
        raise ConfigError([Problem(f"a mapping is needed, found {_shown(block)}", key=KEY, hint=EXAMPLE)])
    if problems := [*_unknown(block), *_bad_address(block), *_bad_content(block)]:
        raise ConfigError(problems)


def _unknown(block: Mapping[str, Any]) -> list[Problem]:
    hint = f"it knows: {', '.join(_FIELDS)}"
    return [Problem("no such setting", key=f"{KEY}.{name}", hint=hint) for name in block if name not in _FIELDS]


def _bad_address(block: Mapping[str, Any]) -> list[Problem]:
    url = block.get("otlp")
    if url is None:
        return []
    if not isinstance(url, str) or not _is_address(url):
        what = f"the address of an OTLP/HTTP receiver is needed, found {_shown(url)}"
        return [Problem(what, key=f"{KEY}.otlp", hint=EXAMPLE)]
    if "@" in urlsplit(url).netloc or urlsplit(url).query:
        hint = "put a login into OTEL_EXPORTER_OTLP_HEADERS of the environment"
        return [Problem("an address that holds a login or a query is written into files", key=f"{KEY}.otlp", hint=hint)]
    return []


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _bad_content(block: Mapping[str, Any]) -> list[Problem]:
    content = block.get("content", False)
    if isinstance(content, bool):
        return []
    return [Problem(f"true or false is needed, found {_shown(content)}", key=f"{KEY}.content")]


def _shown(value: Any) -> str:
    return f"`{str(value)[:60]}`"
