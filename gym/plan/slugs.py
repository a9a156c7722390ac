"""Names as the outside world can take them: slugs for DNS, Compose, cookies and files, segments for URLs.

The same stack always gets the same slugs, and no two of its instances share one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import quote

from gym import labels

MAX_SLUG = 40  # a DNS label holds 63; a replica number and a project name must fit in beside it
RESERVED = frozenset({"router", "console", "sandbox", "gym-console", "gym-metrics"})  # what a stack itself has
# Traefik answers 400 to a path that holds one of these percent-encoded, and a backtick ends the pattern of its rules.
UNROUTABLE = frozenset("/\\;%?#`")


def slugify(name: str) -> str:
    """Lower case, digits and dashes; not yet unique."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug if slug and len(slug) <= MAX_SLUG else _with_digest(slug, name)


def assign_slugs(names: Iterable[str]) -> dict[str, str]:
    """One slug a name. A name that is its own slug keeps it; of the others the first one written wins."""
    ordered = list(dict.fromkeys(names))
    given: dict[str, str] = {}
    taken = set(RESERVED)
    for name in sorted(ordered, key=lambda one: slugify(one) != one):
        slug = slugify(name)
        given[name] = slug if slug not in taken else _with_digest(slug, name)
        taken.add(given[name])
    return {name: given[name] for name in ordered}


def server_path(name: str, slug: str) -> str:
    """`/s/mcqa`: what a client puts between the router's address and a path of the instance."""
    return labels.SERVER_PREFIX + path_segment(name, slug)


def path_segment(name: str, slug: str) -> str:
    """What stands for an instance in `/s/<segment>`: its name, percent-encoded; its slug where that has no route."""
    odd = set(name) & UNROUTABLE or not name.isprintable() or set(name) <= {"."}
    return slug if odd else quote(name, safe="")


def _with_digest(slug: str, name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{slug[: MAX_SLUG - 9].strip('-') or 'server'}-{digest}"
