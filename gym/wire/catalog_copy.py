"""The catalogue of environments as a runtime copies it for a console that sees no other folder: they write, it reads.

Only what the page shows: no configuration, which may hold a key, and no code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, RootModel

from gym.files import read_document

INDEX: Final = "catalog.json"
AUDITS: Final = Path("docs") / "audits.md"


class CopiedEnvironment(BaseModel):
    """Of any version: what is new to a reader is passed over. Its files lie in a folder of its name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    domain: str = ""
    kind: str = ""
    description: str = ""
    licence: str = ""
    aliases: tuple[str, ...] = ()
    starts: bool = True  # by its name: it has a configuration
    strict: bool = False
    source: str = ""  # the folder that it was copied from
    version: str = ""  # of the package that brought it


class CopiedCatalog(RootModel[dict[str, CopiedEnvironment]]):
    """By name."""

    model_config = ConfigDict(frozen=True)


def read_catalog(folder: Path) -> CopiedCatalog:
    """Empty where it was never written, or cannot be read."""
    return read_document(CopiedCatalog, folder / INDEX) or CopiedCatalog({})
