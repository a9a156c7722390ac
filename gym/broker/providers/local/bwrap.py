"""How a local sandbox is isolated: namespaces by bubblewrap, or nothing. Pure: a spec in, a command line out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, Protocol

from gym.broker.errors import refuse
from gym.broker.provider import Abilities
from gym.broker.providers.local.devices import make_devices, show_devices
from gym.broker.providers.local.records import SandboxFolder
from gym.sandbox.science import SCIENCE
from gym.wire.sandbox import Access, SandboxSpec

WORKDIR: Final = "/workspace"
HELPER_INSIDE: Final = "/.gym/helper"
PYTHON_INSIDE: Final = "/.gym/python"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# fmt: off
# Of /etc only what programs need to start and what holds no secret.
SYSTEM_ETC: Final = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "default/locale", "environment",
    "fonts", "gai.conf", "group", "host.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "locale.alias", "locale.gen", "magic", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki", "profile",
    "profile.d", "protocols", "python3", "python3.11", "python3.12", "python3.13", "services", "shells",
    "ssl/certs", "ssl/openssl.cnf", "timezone",
)
# fmt: on
NETWORK_ETC: Final = ("hosts", "resolv.conf")
# Root's own in /proc, which a broker that runs as root would hand on: the kernel asks for the owner, not a capability.
HIDDEN_FOLDERS: Final = ("/proc/acpi", "/proc/asound", "/proc/scsi")
HIDDEN_FILES: Final = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/timer_list",
)
SHOWN: Final = ("/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/tty")
OWN_USER: Final = re.compile(r"(?:root|\d{1,9})(?::(?:root|\d{1,9}))?")
KEPT: Final = ("/proc", "/sys", "/dev", "/.gym")


class Command(NamedTuple):
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path


class Isolation(Protocol):
    name: str

    def abilities(self, limits: bool) -> Abilities: ...

    def check(self, spec: SandboxSpec) -> None:
        """Refuses what this isolation cannot give, and says why."""

    def prepare(self, spec: SandboxSpec, folders: SandboxFolder) -> None:
        """The folders that the command line names."""

    def command(
        self,
        spec: SandboxSpec,
        folders: SandboxFolder,
        helper: Path,
        options: tuple[str, ...],
        python: Path | None = None,
    ) -> Command:
        """`python` is the folder of the environment whose interpreter is found first."""
        ...


class NoIsolation:
    """Plain processes of this user, in a folder of their own. They see and may do whatever this user may."""

    name = "subprocess"

    def abilities(self, limits: bool) -> Abilities:
        return Abilities(
            isolates=False,
            images=False,
            networks=("none", "internet"),
            users=False,
            forks=True,
            limits=limits,
            lasting=False,
        )

    def check(self, spec: SandboxSpec) -> None:
        _check_common(self.name, spec, ("none", "internet"))
        if spec.user not in (None, "", "root", "0"):
            what = f"`user: {spec.user}`: plain processes all run as the same user"
            refuse(f"{what}, with the provider `{self.name}`", "Leave it out.")
        for asked, word in ((spec.workdir, "workdir"), (spec.mounts, "mounts"), (spec.read_only, "read_only")):
            if asked:
                refuse(
                    f"`{word}`: plain processes live in this machine's own file system",
                    "Leave it out, or use the provider `bubblewrap` or `docker`.",
                )

    def prepare(self, spec: SandboxSpec, folders: SandboxFolder) -> None:
        for name in ("work", "tmp"):
            (folders.files / name).mkdir(parents=True, exist_ok=True)

    def command(
        self,
        spec: SandboxSpec,
        folders: SandboxFolder,
        helper: Path,
        options: tuple[str, ...],
        python: Path | None = None,
    ) -> Command:
        work, tmp = str(folders.files / "work"), str(folders.files / "tmp")
        path = f"{python}/bin:{PATH}" if python else PATH
        env = {"PATH": path, "HOME": work, "TMPDIR": tmp, "LANG": "C.UTF-8", **spec.env}
        return Command((str(helper), *options), env, folders.files / "work")


class BubblewrapIsolation:
    """Own namespaces of every kind, no capability, this machine's programs (or a folder's) read-only."""

    name = "bubblewrap"

    def __init__(
        self, images: Mapping[str, Path], also: Iterable[Path], share_network: bool, gated: bool = False
    ) -> None:
        self._images = dict(images)
        self._also = tuple(also)
        shared: tuple[Access, ...] = ("internet",) if share_network else ()
        behind_gate: tuple[Access, ...] = ("allow",) if gated else ()
        self._networks: tuple[Access, ...] = ("none", *shared, *behind_gate)
        self.own_devices = False

    def abilities(self, limits: bool) -> Abilities:
        return Abilities(
            isolates=True,
            images=bool(self._images),
            networks=self._networks,
            users=False,
            forks=True,
            limits=limits,
            lasting=False,
        )

    def check(self, spec: SandboxSpec) -> None:
        _check_common(self.name, spec, self._networks)
        if spec.user and not OWN_USER.fullmatch(spec.user):
            what = f"`user: {spec.user}`: the provider `{self.name}` runs every command as one user, `root` or a number"
            refuse(what, "Write a number, and a group after a colon, or leave it out.")
        image = spec.image or "host"
        if self._images and image not in self._images and image != "host":
            refuse(f"no image {image!r} here", f"There are: host, {', '.join(sorted(self._images))}.")
        for path in (*spec.mounts, *((spec.workdir,) if spec.workdir else ())):
            pure = PurePosixPath(path)
            taken = path in ("/", *SYSTEM, "/etc") or any(pure.is_relative_to(kept) for kept in KEPT)
            if taken or not pure.is_absolute() or ".." in pure.parts:
                refuse(f"{path!r} cannot be mounted over", "Name a path like /workspace.")

    def prepare(self, spec: SandboxSpec, folders: SandboxFolder) -> None:
        for name in ("work", "tmp", "home"):
            (folders.files / name).mkdir(parents=True, exist_ok=True)
        (folders.files / "tmp").chmod(0o1777)
        if self.own_devices:
            make_devices(folders.devices)

    def command(
        self,
        spec: SandboxSpec,
        folders: SandboxFolder,
        helper: Path,
        options: tuple[str, ...],
        python: Path | None = None,
    ) -> Command:
        workdir = spec.workdir or WORKDIR
        argv = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"]
        uid, gid = ids(spec.user)
        argv += ["--cap-drop", "ALL", "--uid", uid, "--gid", gid, "--hostname", "sandbox"]
        if spec.network.access == "internet":
            argv.append("--share-net")
        argv += self._root(spec)
        argv += ["--proc", "/proc", "--dev", "/dev", *(show_devices(folders.devices) if self.own_devices else ())]
        argv += _close_proc()
        if spec.read_only:
            argv += ["--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        argv += _writable(spec, folders, workdir)
        argv += [word for path in self._also for word in ("--ro-bind", str(path), str(path))]
        if python is not None:
            argv += ["--ro-bind", str(python), PYTHON_INSIDE]
        argv += ["--ro-bind", str(helper), HELPER_INSIDE, "--remount-ro", "/", "--chdir", workdir]
        for path, size in sorted(spec.mounts.items()):
            argv += ["--size", str(size), "--tmpfs", path]
        path = f"{PYTHON_INSIDE}/bin:{PATH}" if python else PATH
        env = {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", **spec.env}
        return Command((*argv, "--", HELPER_INSIDE, "--guard", *options), env, folders.root)

    def _root(self, spec: SandboxSpec) -> list[str]:
        image = self._images.get(spec.image or "")
        if image is not None:
            tops = sorted(child for child in image.iterdir() if child.name not in ("proc", "sys", "dev", ".gym", "tmp"))
            return [word for top in tops for word in _show(top, f"/{top.name}")]
        names = (*SYSTEM_ETC, *(NETWORK_ETC if spec.network.access == "internet" else ()))
        files = [Path("/etc") / name for name in names]
        return [*show_system(), *(word for path in files if path.exists() for word in _show(path, str(path)))]


def ids(user: str | None) -> tuple[str, str]:
    """All that there is in its namespace is one user and one group, under these numbers."""
    uid, _, gid = (user or "0").replace("root", "0").partition(":")
    return uid, gid or uid


def show_system() -> list[str]:
    """Folder by folder: a bind of `/` fails whenever a container's mount goes away while it is made."""
    return [word for path in map(Path, SYSTEM) if path.exists() for word in _show(path, str(path))]


def _check_common(name: str, spec: SandboxSpec, networks: tuple[Access, ...]) -> None:
    if spec.build is not None and spec.build != SCIENCE:
        refuse(f"`build`: the provider `{name}` builds no images", "Use the provider `docker`.")
    if spec.runtime is not None:
        refuse(f"`runtime: {spec.runtime}`: the provider `{name}` has no runtimes", "Use the provider `docker`.")
    wanted = {spec.network.access, spec.network.setup.access if spec.network.setup else spec.network.access}
    if spec.network.setup is not None and len(wanted) > 1 and "internet" in wanted:
        refuse(
            "`network.setup`: a local sandbox that began with this machine's network keeps it",
            "Leave `setup` out, or let it `allow` the hosts that it needs.",
        )
    if missing := wanted - set(networks):
        refuse(
            f"`network: {sorted(missing)[0]}`: the provider `{name}` offers {', '.join(networks)}",
            "Use the provider `docker`.",
        )


def _show(path: Path, inside: str) -> list[str]:
    if path.is_symlink() and not inside.startswith("/etc/"):
        return ["--symlink", str(path.readlink()), inside]
    return ["--ro-bind", str(path), inside]


def _close_proc() -> list[str]:
    argv = [word for path in HIDDEN_FOLDERS if Path(path).is_dir() for word in ("--tmpfs", path, "--remount-ro", path)]
    argv += [word for path in HIDDEN_FILES if Path(path).exists() for word in ("--ro-bind", "/dev/null", path)]
    return [*argv, *(word for path in SHOWN if Path(path).exists() for word in ("--ro-bind", path, path))]


def _writable(spec: SandboxSpec, folders: SandboxFolder, workdir: str) -> list[str]:
    bind = "--ro-bind" if spec.read_only else "--bind"
    tmp = ["--tmpfs", "/tmp"] if spec.read_only else ["--bind", str(folders.files / "tmp"), "/tmp"]
    argv = [*tmp, bind, str(folders.files / "home"), "/root", bind, str(folders.files / "work"), workdir]
    return [*argv, *(word for path in sorted(spec.mounts) for word in ("--dir", path))]
