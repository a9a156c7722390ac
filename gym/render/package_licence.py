"""What a distribution's metadata says of its licence -> an SPDX expression, or "" where it does not say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

# What is written in `License-Expression`, in a classifier or as the whole of `License`, in small letters.
SPDX: Final[Mapping[str, str]] = {
    "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache": "Apache-2.0",
    "mit license": "MIT",
    "the mit license": "MIT",
    "mit no attribution license (mit-0)": "MIT-0",
    "expat": "MIT",
    "bsd-3": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "isc license (iscl)": "ISC",
    "isc license": "ISC",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl 2.0": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "psfl": "PSF-2.0",
    "psf license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "cc0 1.0 universal (cc0 1.0) public domain dedication": "CC0-1.0",
    "zlib/libpng license": "Zlib",
}
PLAIN: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BlueOak-1.0.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "HPND",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
        "ZPL-2.1",
    }
)
BY_SMALL_LETTERS: Final = {one.lower(): one for one in PLAIN}
CLASSIFIER: Final = "License :: "
WORD: Final = re.compile(r"[A-Za-z0-9.+-]+")


class PackageFacts(NamedTuple):
    """Of one installed distribution, as its metadata has it."""

    name: str
    version: str
    expression: str = ""
    classifiers: tuple[str, ...] = ()
    licence: str = ""  # free text: a name, or all of the licence


def licence_expression(facts: PackageFacts) -> str:
    """The standard's own field first, then what a classifier says, then a text that is a licence's name and no more."""
    if facts.expression:
        return facts.expression
    named = (one.rpartition(" :: ")[2] for one in facts.classifiers if one.startswith(CLASSIFIER))
    found = sorted({spdx for one in named if (spdx := _known(one))})
    return " AND ".join(found) or _known(facts.licence) or _spelled_out(facts.licence)


def licences_in(expression: str) -> frozenset[str]:
    """`MIT AND (Apache-2.0 OR X)` -> the three names."""
    return frozenset(WORD.findall(expression)) - {"AND", "OR", "WITH"}


def is_allowed(expression: str, allowed: Iterable[str]) -> bool:
    """Each licence that must be kept is allowed; of those to choose from, one is."""
    known = frozenset(allowed)
    parts = (part.strip(" ()") for part in re.split(r"\bAND\b", expression))
    return bool(expression) and all(
        any(one.strip(" ()") in known for one in re.split(r"\bOR\b", part)) for part in parts
    )


def _known(text: str) -> str:
    """Of one name, or of names that a text joins: `Apache License 2.0 and MIT`."""
    key = " ".join(text.lower().split())
    return SPDX.get(key) or BY_SMALL_LETTERS.get(key) or (text.strip() if _is_expression(text) else "")


def _is_expression(text: str) -> bool:
    return " " in text.strip() and len(text) < 200 and licences_in(text) <= PLAIN and bool(licences_in(text))


def _spelled_out(text: str) -> str:
    """All of a licence in the field for its name."""
    words = " ".join(text.lower().split())
    if "permission is hereby granted, free of charge" in words:
        return "MIT"
    if "redistribution and use in source and binary forms" in words:
        return "BSD-3-Clause" if "neither the name" in words else "BSD-2-Clause"
    return "Apache-2.0" if words.startswith("apache license version 2.0") else ""
