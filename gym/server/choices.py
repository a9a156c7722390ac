"""Choosing an option by a pattern that the row brings along: `template_metadata.output_regex`."""

from __future__ import annotations

from gym.server.patterns import BadPattern, Patterns, SlowPattern
from gym.wire.choices import Options, match_to_answer
from gym.wire.failures import RolloutError
from gym.wire.rows import Tolerant


class Template(Tolerant):
    """A row's `template_metadata`."""

    output_regex: str | list[str] | None = None


async def choose_by_pattern(
    patterns: Patterns, template: Template | None, text: str, options: Options
) -> tuple[str | None, str]:
    """The letter that the first matching pattern gives, and what a person should know: which one is no pattern."""
    given = template.output_regex if template else None
    reason = ""
    for pattern in [given] if isinstance(given, str) else given or ():
        try:
            groups = await patterns.last_match(pattern, text)
        except BadPattern as error:
            reason = f"template_metadata.output_regex: {pattern!r} is no pattern: {error}"
        except SlowPattern as error:
            raise RolloutError("row", f"template_metadata.output_regex: {pattern!r} {error}") from None
        else:
            if groups is not None and (chosen := match_to_answer(groups, options)):
                return chosen, ""
    return None, reason
