"""What the workers of `gym.server.mathematics` run: math-verify, without the time limits by which it would give up.

Those are of wall time: on a busy machine they would change a reward. The worker is killed by its CPU time instead.
"""

from __future__ import annotations

import logging

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

DIGITS = 6  # to which numbers have to agree
NEVER = 0
logging.getLogger("math_verify").setLevel(logging.CRITICAL)


def compare(expected: str, answer: str) -> dict[str, object]:
    """`expected` is LaTeX without delimiters; `answer` is a text in which an expression is looked for."""
    golds = parse(f"\\boxed{{{expected}}}", [LatexExtractionConfig()], parsing_timeout=NEVER)
    if not golds:
        return {"bad_gold": True, "equal": False, "extracted": None}
    found = parse(answer, [ExprExtractionConfig(), LatexExtractionConfig()], parsing_timeout=NEVER)
    right = next((one for one in found if verify(golds, one, DIGITS, timeout_seconds=NEVER)), None)
    shown = right if right is not None else next(iter(found), None)
    return {"bad_gold": False, "equal": right is not None, "extracted": None if shown is None else str(shown)}
