"""Packed environments by the name of their image: where a server's name is typed, an image's may stand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gym.config import CatalogEntry, find_server, list_servers, search_roots
from gym.config.image_references import is_reference
from gym.config.packed import Packed, pack_findings, read_packed
from gym.errors import UserError
from gym.venvs import cache_dir


class OpenedImage(NamedTuple):
    root: Path
    packed: Packed

    @property
    def config(self) -> Path:
        return self.root / self.packed.config

    @property
    def entry(self) -> CatalogEntry:
        folder = self.root / self.packed.server
        return next(one for one in list_servers([self.root]) if one.directory == folder)


def names_image(name: str) -> bool:
    """What lies on this disk under that name is meant before any image."""
    return is_reference(name) and not Path(name).exists()


def open_named_image(reference: str, *, fetch: bool = False) -> OpenedImage:
    from gym.runtime.compose.packed_images import open_image  # noqa: PLC0415  (most names are not images)

    root = open_image(reference, cache_dir(os.environ), fetch=fetch)
    packed = read_packed(root)
    assert packed is not None, "it was opened just now"
    return OpenedImage(root, packed)


def find_entry(name: str, roots: Sequence[Path] | None = None) -> CatalogEntry:
    """A server, or what an image was packed from."""
    if names_image(name):
        return open_named_image(name).entry
    return find_server(name, roots or search_roots(Path.cwd(), os.environ))


def open_images(names: Sequence[str], environ: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Names with the configurations of images in their place, and the folders where these look first."""
    opened = {name: open_trusted(name, environ) for name in names if names_image(name)}
    shown = tuple(str(opened[name].config) if name in opened else name for name in names)
    return shown, tuple(one.root for one in opened.values())


def open_trusted(reference: str, environ: Mapping[str, str]) -> OpenedImage:
    """Its author may be anybody: what would read this machine, or change the whole stack, needs a word first."""
    opened = open_named_image(reference)
    found = () if opened.packed.trusted else tuple(list_findings(opened, environ))
    if found:
        listed = "\n".join(f"  {one}" for one in found)
        raise UserError(
            f"The configuration in {reference} asks for more than a server of its own needs:\n{listed}",
            f"Its author gets this from your machine. If you trust the author: gym pull {reference} --trust",
        )
    return opened


def list_findings(opened: OpenedImage, environ: Mapping[str, str]) -> Iterator[str]:
    files = (path for path in opened.root.glob("servers/**/*") if path.suffix in (".yaml", ".yml"))
    texts = {
        str(path.relative_to(opened.root)): path.read_text("utf-8", errors="replace")
        for path in files
        if path.parent.name == "configs" or path == opened.config
    }
    return pack_findings(texts, environ)


def trust_image(opened: OpenedImage) -> None:
    from gym.runtime.compose.packed_images import trust_pack  # noqa: PLC0415  (as above)

    trust_pack(opened.root)
