"""Why an answer does not keep its format, or keeps it and is worth nothing all the same."""

from typing import Any

from rows import LineFormat, MarkerFormat

from gym.wire.answers import repeats_only, says_something


def reason_of(details: dict[str, Any]) -> str:
    if "min_matches" in details:
        return f"{details['matching_lines']} lines match, at least {details['min_matches']} should"
    parts = (f"{name}: {', '.join(details[name])}" for name in ("missing", "spurious") if details[name])
    return "; ".join(parts)[:2000]


def objection(text: str, wanted: LineFormat | MarkerFormat, prompt: str) -> str:
    """What strict mode has against an answer that keeps the format."""
    if not says_something(text):
        return "the answer is empty"
    if repeats_only(text, prompt):
        return "the answer is the prompt again"
    if isinstance(wanted, LineFormat):
        asks = bool(wanted.verify_regex) and wanted.verify_min_matches > 0
        return "" if asks else "the row asks for no lines"
    for marker in wanted.expected_markers:
        text = text.replace(marker, " ") if marker else text
    if not says_something(text):
        return "the answer is nothing but markers"
    return "" if wanted.expected_markers or wanted.patterns else "the row asks for no markers"
