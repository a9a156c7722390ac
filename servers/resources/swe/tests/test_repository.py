"""The commands to git, on real repositories: the future goes, the patch comes out whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from repository import APPLY, CHECKOUT, DIFF, GIT_ENV, SCRUB, TREE

NAMED = {f"GIT_{who}_{what}": "robin@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Repo:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = folder.parent / "desk"
        folder.mkdir()
        self.desk.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        return self.run(["git", *words]).stdout.strip()

    def script(self, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(["sh", "-c", text, "sh", *arguments], check=False)

    def run(self, argv: list[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], **NAMED, **GIT_ENV}
        done = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    def commit(self, name: str, text: str, subject: str = "more") -> str:
        (self.folder / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def objects(self) -> set[str]:
        listed = self.git("cat-file", "--batch-check", "--batch-all-objects")
        return {line.split()[0] for line in listed.splitlines()}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def test_no_trace_of_a_later_commit_is_left_however_it_is_kept(repo: Repo) -> None:
    repo.commit("a.py", "1")
    repo.git("tag", "-a", "v1", "-m", "one")
    base = repo.commit("a.py", "2")
    future = repo.commit("a.py", "THE FIX")
    blob = repo.git("rev-parse", f"{future}:a.py")
    repo.git("tag", "v2")
    repo.git("tag", "-a", "v3", "-m", "three")
    repo.git("branch", "later")
    repo.git("update-ref", "refs/remotes/origin/main", future)
    repo.git("remote", "add", "origin", "https://git.example.org/x.git")
    repo.git("notes", "add", "-m", "THE FIX", future)
    repo.git("update-ref", "refs/pull/7/head", future)
    repo.git("worktree", "add", "-q", str(repo.folder.parent / "other"), "later")
    repo.git("gc", "-q")
    repo.git("reset", "-q", "--hard", base)
    (repo.folder / "a.py").write_text("A STASHED FIX")
    repo.git("stash")
    assert blob in repo.objects()

    done = repo.script(SCRUB)
    assert done.returncode == 0, done.stderr
    assert repo.git("rev-parse", "HEAD") == base
    assert repo.git("tag") == "v1"
    assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main\nrefs/tags/v1"
    assert repo.git("remote") == repo.git("stash", "list") == repo.git("log", "-g", "--format=%H") == ""
    assert not {blob, future} & repo.objects()
    assert not [path for path in (repo.folder / ".git").iterdir() if path.name.endswith("_HEAD")]


def test_an_image_at_a_later_commit_is_taken_back_to_its_base(repo: Repo) -> None:
    base = repo.commit("a.py", "1")
    future = repo.commit("a.py", "THE FIX")
    assert repo.script(CHECKOUT, base).returncode == 0
    assert repo.script(SCRUB).returncode == 0
    assert (repo.folder / "a.py").read_text() == "1"
    assert future not in repo.objects()


def test_the_commit_with_which_images_begin_stays(repo: Repo) -> None:
    base = repo.commit("a.py", "1")
    mine = repo.commit("pinned.txt", "x", "SWE-bench")
    assert repo.script(CHECKOUT, base).returncode == 0
    assert repo.git("rev-parse", "HEAD") == mine
    assert repo.script(CHECKOUT, "0" * 40).returncode != 0


def test_a_patch_holds_what_changed_since_and_applies_elsewhere(repo: Repo, tmp_path: Path) -> None:
    repo.commit("a.py", "1\n")
    (repo.folder / "built.txt").write_text("of the image\n")
    (repo.folder / "gone.py").write_text("x\n")
    tree = repo.script(TREE, str(repo.desk)).stdout.strip()
    subprocess.run(["cp", "-R", str(repo.folder), str(tmp_path / "fresh")], check=True)
    (repo.folder / "a.py").write_text("2\n")
    (repo.folder / "gone.py").unlink()
    (repo.folder / "new folder").mkdir()
    (repo.folder / "new folder" / "ä.bin").write_bytes(bytes(range(256)))
    (repo.folder / ".gitattributes").write_text("*.py diff=evil\n")
    repo.git("config", "diff.evil.textconv", "touch /tmp/never; cat")
    (repo.folder / ".git" / "index.lock").write_text("")  # a git that was killed
    done = repo.script(DIFF, str(repo.desk), tree)
    assert done.returncode == 0, done.stderr
    assert "built.txt" not in done.stdout

    (repo.desk / "p").write_text(done.stdout)
    repo.folder = tmp_path / "fresh"
    assert repo.script(APPLY, str(repo.desk / "p"), "").returncode == 0
    assert (repo.folder / "a.py").read_text() == "2\n"
    assert (repo.folder / "new folder" / "ä.bin").read_bytes() == bytes(range(256))
    assert not (repo.folder / "gone.py").exists()


@pytest.mark.parametrize("path", ["../outside.txt", ".git/hooks/post-checkout", "/etc/outside.txt"])
def test_a_patch_cannot_write_beside_the_repository(repo: Repo, path: str) -> None:
    repo.commit("a.py", "1\n")
    (repo.desk / "p").write_text(f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")
    assert repo.script(APPLY, str(repo.desk / "p"), "").returncode != 0
    assert not (repo.folder.parent / "outside.txt").exists()
