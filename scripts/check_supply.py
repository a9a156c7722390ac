"""What we install, checked without a network: every package of the locks has its version and hashes, a licence that is
allowed, and no known hole. `scripts/check` runs it; `--write` writes docs/licences.md again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from gym.files import write_atomically
from gym.render.package_licence import PLAIN, PackageFacts, is_allowed, licence_expression

ROOT = Path(__file__).parents[1]
PAGE, ADVISORIES, LOCKS = "docs/licences.md", "requirements/advisories.json", "requirements"
# Texts that others may pass on, sell and change without giving their own away; MPL asks for changes of its files.
ALLOWED = PLAIN
# Their metadata says `BSD` and not which: read in their licence files, of antlr4 in its repository.
READ_BY_HAND = dict.fromkeys(
    ("antlr4-python3-runtime", "jinja2", "mpmath", "omegaconf", "sympy", "colorama", "pandas"), "BSD-3-Clause"
)
HASHED = re.compile(r"^--hash=sha256:[0-9a-f]{64}$")
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^\s;]+)(\s*;\s*(?P<marker>.+))?$")
ROW = re.compile(r"^\| (?P<name>[a-z0-9.-]+) \| (?P<licence>[^|]+) \| (?P<locks>[^|]+) \|$", re.MULTILINE)
TOP = """# Licences

What the locks install and under which licence, by each package's own metadata. Written by
`.venv/bin/python scripts/check_supply.py --write`; `scripts/check` refuses a package that is missing here, one whose
licence is another by now, and a licence that is not one of: {allowed}.

| package | licence | in requirements/ |
|---|---|---|
"""


class LockedPackage(NamedTuple):
    name: str
    version: str
    hashes: int
    marker: str
    place: str  # file:line


def main(words: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(words)
    root: Path = options.root
    if options.from_pip_audit:
        return _take_audit(root, options.from_pip_audit, options.taken)
    faults: list[str] = []
    locks = {_called(path, root): read_requirements(path, faults) for path in lock_files(root)}
    licences = installed_licences(options.also)
    if options.write:
        write_atomically(root / PAGE, licence_page(locks, licences, read_page(root)), mode=0o644)
    faults += licence_faults(locks, licences, read_page(root))
    snapshot = json.loads((root / ADVISORIES).read_text("utf-8"))
    faults += advisory_faults(locks, snapshot)
    for fault in faults:
        print(f"check_supply: {fault}", file=sys.stderr)  # noqa: T201
    print(_summary(locks, snapshot))  # noqa: T201
    return 1 if faults else 0


def lock_files(root: Path) -> list[Path]:
    """All of requirements/, and each file of a server that `scripts/lock` writes from a `requirements.in`."""
    own = sorted((root / LOCKS).glob("*.txt"))
    return [*own, *(path.with_suffix(".txt") for path in sorted(root.glob("servers/*/*/**/requirements.in")))]


def read_requirements(path: Path, faults: list[str]) -> list[LockedPackage]:
    """Every line is a package with one version and the hashes of its files: nothing else may be installed by it."""
    found = []
    for number, words in _logical_lines(path.read_text("utf-8")):
        place = f"{path.parent.name}/{path.name}:{number}"
        said = " ".join(word for word in words if not word.startswith("--hash"))
        pinned, hashes = PINNED.fullmatch(said), [word for word in words if word.startswith("--hash")]
        if pinned is None:
            faults.append(f"{place}: {said!r} is not a package with one version (name==1.2.3). Run scripts/lock")
        elif not hashes or not all(HASHED.fullmatch(one) for one in hashes):
            faults.append(f"{place}: {pinned['name']} has no sha256 hashes, or others beside them. Run scripts/lock")
        else:
            name = normal(pinned["name"])
            found.append(LockedPackage(name, pinned["version"], len(hashes), pinned["marker"] or "", place))
    if not found:
        faults.append(f"{path}: no package is locked there. Run scripts/lock")
    return found


def installed_licences(also: Iterable[Path] = ()) -> dict[str, str]:
    """By normal name; "" where the metadata does not say."""
    places = [*sys.path, *map(str, also)]
    found = {}
    for one in metadata.distributions(path=places):
        said = one.metadata
        facts = PackageFacts(
            normal(said["Name"]),
            one.version,
            said.get("License-Expression") or "",
            tuple(said.get_all("Classifier") or ()),
            said.get("License") or "",
        )
        found.setdefault(facts.name, licence_expression(facts) or READ_BY_HAND.get(facts.name, ""))
    return found


def licence_faults(
    locks: Mapping[str, Sequence[LockedPackage]], licences: Mapping[str, str], page: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """What is not installed here (of another platform, of the site) is held to its line in the page."""
    again = f".venv/bin/python scripts/check_supply.py --write, and look at what changed in {PAGE}"
    wanted = _where(locks)
    for name, files in sorted(wanted.items()):
        known, here = page.get(name, ("", "")), licences.get(name)
        if here == "":
            yield f"{name}: its metadata names no licence that we know. Read it, and add it to READ_BY_HAND"
        elif not known[0]:
            yield f"{name} ({files}) has no line in {PAGE}. Run {again}"
        elif here is not None and known[0] != here:
            yield f"{name}: {PAGE} says {known[0]}, its metadata says {here}. Run {again}"
        elif not is_allowed(known[0], ALLOWED):
            yield f"{name} ({files}): its licence {known[0]} is not allowed. Do without it, or say in ALLOWED why not"
        elif known[1] != files:
            yield f"{name}: {PAGE} says it is in {known[1]}, it is in {files}. Run {again}"
    for name in sorted({*page} - {*wanted}):
        yield f"{name} is in {PAGE} and in no lock. Run {again}"


def advisory_faults(locks: Mapping[str, Sequence[LockedPackage]], snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Versions that the last audit found a hole in, but for those with a reason to live with it."""
    if snapshot.get("format") != "gym-advisories" or snapshot.get("version") != 1:
        yield f"{ADVISORIES} is not a snapshot of advisories, or of another version"
        return
    accepted = {one["id"]: one["reason"] for one in snapshot["accepted"]}
    for advisory in snapshot["advisories"]:
        if str(accepted.get(advisory["id"], "")).strip():
            continue
        for one in (package for lock in locks.values() for package in lock):
            if one.name == normal(advisory["package"]) and one.version in advisory["versions"]:
                fixed = ", ".join(advisory["fixed"]) or "no version yet"
                yield f"{one.place}: {one.name} {one.version} has {advisory['id']}; fixed in {fixed}"


def snapshot_of(audit: Mapping[str, Any], taken: str, accepted: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Of what `pip-audit -f json` printed. A package that it skipped was not audited, whatever its summary says."""
    seen = [one for one in audit["dependencies"] if "version" in one]
    return {
        "format": "gym-advisories",
        "version": 1,
        "taken": taken if seen else "",
        "audited": {normal(one["name"]): one["version"] for one in sorted(seen, key=lambda one: normal(one["name"]))},
        "advisories": [
            {
                "id": hole["id"],
                "package": normal(one["name"]),
                "versions": [one["version"]],
                "fixed": hole.get("fix_versions", []),
            }
            for one in seen
            for hole in one.get("vulns", ())
        ],
        "accepted": list(accepted),
    }


def licence_page(
    locks: Mapping[str, Sequence[LockedPackage]], licences: Mapping[str, str], page: Mapping[str, tuple[str, str]]
) -> str:
    rows = [
        f"| {name} | {licences.get(name) or page.get(name, ('unknown', ''))[0]} | {files} |\n"
        for name, files in sorted(_where(locks).items())
    ]
    return TOP.format(allowed=", ".join(sorted(ALLOWED))) + "".join(rows)


def read_page(root: Path) -> dict[str, tuple[str, str]]:
    path = root / PAGE
    text = path.read_text("utf-8") if path.is_file() else ""
    return {one["name"]: (one["licence"], one["locks"]) for one in ROW.finditer(text) if one["name"] != "package"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _called(path: Path, root: Path) -> str:
    return path.stem if path.parent == root / LOCKS else path.parent.relative_to(root).as_posix()


def _where(locks: Mapping[str, Sequence[LockedPackage]]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for file, packages in locks.items():
        for one in packages:
            found.setdefault(one.name, []).append(file)
    return {name: ", ".join(dict.fromkeys(files)) for name, files in found.items()}


def _logical_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that a backslash goes on with are one; comments are none."""
    words: list[str] = []
    began = 0
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""
        began = began if words else number
        words += said.removesuffix("\\").split()
        if words and not said.endswith("\\"):
            yield began, words
            words = []
    if words:
        yield began, words


def _take_audit(root: Path, audit: Path, taken: str) -> int:
    earlier = json.loads((root / ADVISORIES).read_text("utf-8"))["accepted"]
    read = json.loads(audit.read_text("utf-8"))
    found = snapshot_of(read, taken, earlier)
    skipped = len(read["dependencies"]) - len(found["audited"])
    if not found["audited"]:
        print("check_supply: pip-audit audited nothing: its service did not answer", file=sys.stderr)  # noqa: T201
        return 1
    write_atomically(root / ADVISORIES, json.dumps(found, indent=1) + "\n", mode=0o644)
    print(f"check_supply: {len(found['audited'])} audited, {skipped} skipped, {len(found['advisories'])} holes")  # noqa: T201
    return 0


def _summary(locks: Mapping[str, Sequence[LockedPackage]], snapshot: Mapping[str, Any]) -> str:
    every = {(one.name, one.version) for lock in locks.values() for one in lock}
    audited = sum(snapshot.get("audited", {}).get(name) == version for name, version in every)
    when = snapshot.get("taken") or "never"
    return f"check_supply: {len(every)} packages of {len(locks)} locks; {audited} of them in the last audit ({when})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE} again")
    parser.add_argument("--also", type=Path, action="append", default=[], help="another site-packages to read")
    parser.add_argument("--from-pip-audit", type=Path, metavar="FILE", help="what `pip-audit -f json` printed")
    parser.add_argument("--taken", default="", help="the day of that audit")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
