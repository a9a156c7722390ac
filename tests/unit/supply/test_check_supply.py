"""`scripts/check_supply.py`: a lock that lets anything else be installed than was looked at is refused, offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gym.render.package_licence import PackageFacts, is_allowed, licence_expression
from scripts import check_supply
from scripts.check_supply import ALLOWED, LockedPackage, advisory_faults, licence_faults, read_requirements, snapshot_of

HASH = f"--hash=sha256:{'a' * 64}"
SIX = LockedPackage("six", "1.17.0", 1, "", "requirements/sdk.txt:1")
LOCKS = {"sdk": [SIX]}


def test_the_locks_of_this_checkout_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_supply.main([]) == 0, capsys.readouterr().err
    assert " packages of " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("six==1.17.0", "no sha256 hashes"),
        (f"six>=1.17 {HASH}", "not a package with one version"),
        (f"six {HASH}", "not a package with one version"),
        (f"six @ https://files.example/six.whl {HASH}", "not a package with one version"),
        ("-e .", "not a package with one version"),
        ("--extra-index-url https://evil.example/simple", "not a package with one version"),
        ("-r other.txt", "not a package with one version"),
        ("six==1.17.0 --hash=md5:0123", "no sha256 hashes"),
        (f"six==1.17.0 {HASH} --hash=sha256:12", "no sha256 hashes"),
        ("six==1.17.0 \\\n    # a comment that looks like --hash=sha256:x", "no sha256 hashes"),
        ("# six==1.17.0", "no package is locked there"),
    ],
)
def test_a_line_that_leaves_anything_open_is_a_fault(line: str, said: str, tmp_path: Path) -> None:
    faults: list[str] = []
    path = tmp_path / "lock.txt"
    path.write_text(line + "\n")
    read_requirements(path, faults)
    assert said in faults[0]


def test_a_line_as_uv_writes_it_is_none(tmp_path: Path) -> None:
    faults: list[str] = []
    path = tmp_path / "lock.txt"
    path.write_text(
        f"""# made\nUvi_corn[standard]==0.3 ; sys_platform != 'win32' \\\n    {HASH} \\\n    {HASH}\n    # via x\n"""
    )
    (found,) = read_requirements(path, faults)
    assert not faults
    assert (found.name, found.version, found.hashes, found.marker) == ("uvi-corn", "0.3", 2, "sys_platform != 'win32'")


def test_a_licence_that_is_new_changed_or_not_allowed_is_a_fault() -> None:
    def faults(here: dict[str, str], page: dict[str, tuple[str, str]]) -> str:
        return " ".join(licence_faults(LOCKS, here, page))

    assert faults({"six": "MIT"}, {"six": ("MIT", "sdk")}) == ""
    assert faults({}, {"six": ("MIT", "sdk")}) == ""  # of another platform
    assert "has no line" in faults({"six": "MIT"}, {})
    assert "says MIT, its metadata says GPL-3.0-only" in faults({"six": "GPL-3.0-only"}, {"six": ("MIT", "sdk")})
    assert "is not allowed" in faults({"six": "GPL-3.0-only"}, {"six": ("GPL-3.0-only", "sdk")})
    assert "is not allowed" in faults({}, {"six": ("unknown", "sdk")})
    assert "names no licence" in faults({"six": ""}, {"six": ("MIT", "sdk")})
    assert "says it is in cli" in faults({"six": "MIT"}, {"six": ("MIT", "cli")})
    assert "in no lock" in faults({}, {"six": ("MIT", "sdk"), "seven": ("MIT", "sdk")})


def test_a_version_with_a_known_hole_is_a_fault_unless_a_reason_is_given() -> None:
    hole = {"id": "PYSEC-1", "fix_versions": ["1.18"]}
    audit = {"dependencies": [{"name": "Six", "version": "1.17.0", "vulns": [hole]}, {"name": "x", "skip_reason": "?"}]}
    snapshot = snapshot_of(audit, "2026-01-02", [])
    assert snapshot["audited"] == {"six": "1.17.0"}
    assert list(advisory_faults(LOCKS, snapshot)) == [
        "requirements/sdk.txt:1: six 1.17.0 has PYSEC-1; fixed in 1.18",
    ]
    assert not list(advisory_faults({"sdk": [SIX._replace(version="1.18")]}, snapshot))
    assert not list(advisory_faults(LOCKS, {**snapshot, "accepted": [{"id": "PYSEC-1", "reason": "not called"}]}))
    assert list(advisory_faults(LOCKS, {**snapshot, "accepted": [{"id": "PYSEC-1", "reason": " "}]}))
    assert list(advisory_faults(LOCKS, {"format": "other"}))


def test_an_audit_whose_service_did_not_answer_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pip-audit says `No known vulnerabilities found` where it could reach no service."""
    (tmp_path / "requirements").mkdir()
    snapshot = tmp_path / "requirements/advisories.json"
    snapshot.write_text(json.dumps(snapshot_of({"dependencies": []}, "", [])))
    before, audit = snapshot.read_bytes(), tmp_path / "audit.json"
    audit.write_text(json.dumps({"dependencies": [{"name": "six", "skip_reason": "not found"}], "fixes": []}))
    assert check_supply.main(["--root", str(tmp_path), "--from-pip-audit", str(audit), "--taken", "2026-01-02"]) == 1
    assert "audited nothing" in capsys.readouterr().err
    assert snapshot.read_bytes() == before
    audit.write_text(json.dumps({"dependencies": [{"name": "six", "version": "1.17.0", "vulns": []}]}))
    assert check_supply.main(["--root", str(tmp_path), "--from-pip-audit", str(audit), "--taken", "2026-01-02"]) == 0
    assert json.loads(snapshot.read_text())["taken"] == "2026-01-02"


@pytest.mark.parametrize(
    ("facts", "expression"),
    [
        (PackageFacts("a", "1", "MIT OR Apache-2.0"), "MIT OR Apache-2.0"),
        (PackageFacts("a", "1", "", ("License :: OSI Approved :: MIT License", "Topic :: X")), "MIT"),
        (PackageFacts("a", "1", "", ("License :: OSI Approved :: BSD License",), "BSD-3-Clause"), "BSD-3-Clause"),
        (PackageFacts("a", "1", "", (), "Apache License, Version 2.0"), "Apache-2.0"),
        (PackageFacts("a", "1", "", (), "Permission is hereby granted,\n free of charge, to any person"), "MIT"),
        (PackageFacts("a", "1", "", ("License :: OSI Approved :: BSD License",)), ""),
        (PackageFacts("a", "1", "", (), "All rights reserved. Ask us about MIT."), ""),
        (PackageFacts("a", "1", "", ("License :: OSI Approved :: GNU General Public License v3 (GPLv3)",)), ""),
    ],
)
def test_a_licence_is_read_from_what_metadata_says(facts: PackageFacts, expression: str) -> None:
    assert licence_expression(facts) == expression


def test_all_that_must_be_kept_and_one_of_those_to_choose_from_is_allowed() -> None:
    allowed = ("MIT", "MIT OR GPL-3.0-only", "GPL-3.0-only OR MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)", "MIT AND Zlib")
    refused = ("", "GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT OR ISC) AND GPL-3.0-only", "MIT WITH a-twist", "MITX")
    assert all(is_allowed(one, ALLOWED) for one in allowed)
    assert not [one for one in refused if is_allowed(one, ALLOWED)]
