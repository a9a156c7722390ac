"""Nodes of /dev that are a sandbox's own, for a broker that is root: bubblewrap shows the machine's, whose
owner may change their modes. Of its own no sandbox is the owner either."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from gym.broker.providers.local.records import remove_tree

log = logging.getLogger("gym.broker")
NUMBERS: Final = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
MODE: Final = 0o666
FOREIGN: Final = 65534  # in no sandbox's map of users


def needs_devices(folder: Path) -> bool:
    """Where this process owns the machine's, so does a sandbox, whose user is the same; and they can be made there."""
    if Path("/dev/null").stat().st_uid != os.geteuid():
        return False
    probe = folder / f".devices.{secrets.token_hex(4)}"
    try:
        make_devices(probe)
    except OSError as error:
        what = "commands in sandboxes can change the modes of this machine's /dev/null and its like: the broker is root"
        log.warning("%s, and nodes of their own cannot be made in %s (%s). Run it as another user", what, folder, error)
        return False
    finally:
        remove_tree(probe)
    return True


def make_devices(folder: Path) -> None:
    """`PermissionError` where this may not be, or where the file system lets none be opened."""
    folder.mkdir(mode=0o755)
    for name, numbers in NUMBERS.items():
        node = folder / name
        os.mknod(node, MODE | stat.S_IFCHR, os.makedev(*numbers))
        node.chmod(MODE)
        os.chown(node, FOREIGN, FOREIGN)
    (folder / "null").write_bytes(b"-")  # refused on a file system that is mounted `nodev`


def show_devices(folder: Path) -> list[str]:
    """Over those of bubblewrap's `--dev`."""
    return [word for name in NUMBERS for word in ("--dev-bind", str(folder / name), f"/dev/{name}")]
