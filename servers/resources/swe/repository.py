"""The repository inside a sandbox: made ready, its future taken out, the patch taken from it or put into it.

Git runs without the configuration of the repository's user, and never runs what an attribute names.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from protection import is_protected
from tasks import Task

from gym.sandbox.broker_client import FileProblem, Sandbox, SandboxEnded
from gym.sandbox.sandbox_errors import is_of_the_sandbox
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult

GIT_SECONDS: Final = 300.0
ROOM: Final = 256 << 10  # bytes that a disk with room takes
MAX_TEXT: Final = 8 << 20  # of a file with tests
GIT_ENV: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "core.hooksPath",
    "GIT_CONFIG_VALUE_2": "/dev/null",
}
# A commit on top of the base, which holds what an image had to change, stays: it is part of what the agent is given.
CHECKOUT: Final = """
set -e
if [ -z "$1" ] || [ "$(git rev-parse HEAD)" = "$1" ]; then exit 0; fi
if [ "$(git log -1 --format='%P %s')" = "$1 SWE-bench" ]; then exit 0; fi
git checkout -q -f "$1"
"""
# Whatever HEAD does not reach is dropped: branches, tags, remotes, stashes, reflogs, and then the objects themselves.
SCRUB: Final = """
set -e
dir=$(git rev-parse --absolute-git-dir)
git remote | while read -r name; do git remote remove "$name"; done
kept=$(git symbolic-ref -q HEAD || true)
merged=$(git tag --merged HEAD)
git for-each-ref --format='%(refname)' | while read -r ref; do
  if [ "$ref" = "$kept" ] || printf '%s\\n' "$merged" | grep -qxF "${ref#refs/tags/}"; then continue; fi
  git update-ref -d "$ref"
done
rm -rf "$dir/logs" "$dir/FETCH_HEAD" "$dir/ORIG_HEAD" "$dir/MERGE_HEAD" "$dir/CHERRY_PICK_HEAD" "$dir/REVERT_HEAD" \
  "$dir/worktrees" "$dir/refs/original" "$dir/refs/replace" "$dir/lost-found" "$dir/rr-cache" "$dir/shallow.lock"
rm -f "$dir"/objects/pack/*.keep
git reflog expire --expire=now --all
git -c gc.auto=0 repack -a -d -q
rm -f "$dir/objects/info/alternates" "$dir/objects/info/commit-graph"
rm -rf "$dir/objects/info/commit-graphs"
git prune --expire=now
git pack-refs --all
left=$(git rev-list --all --not HEAD | wc -l)
loose=$(git fsck --unreachable --no-reflogs --no-progress 2>/dev/null | grep -c unreachable || true)
if [ "$left" -ne 0 ] || [ "$loose" -ne 0 ]; then echo "still there: $left commits, $loose objects" >&2; exit 1; fi
"""
TREE: Final = """
set -e
export GIT_INDEX_FILE="$1/index"
rm -f "$GIT_INDEX_FILE"
git read-tree HEAD
git add -A
git write-tree
"""
DIFF: Final = """
set -e
export GIT_INDEX_FILE="$1/index-$$"
git read-tree "$2"
git add -A
git diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --src-prefix=a/ \
  --dst-prefix=b/ "$2"
"""
CHANGED: Final = """
set -e
export GIT_INDEX_FILE="$1/changed"
rm -f "$GIT_INDEX_FILE"
git read-tree "$2"
git add -A -f
git diff --cached --name-status --no-renames -z "$2"
"""
APPLY: Final = """
git apply --whitespace=nowarn "$1" && exit 0
[ -n "$2" ] || exit 1
git apply --whitespace=nowarn --recount --unidiff-zero --inaccurate-eof "$1" && exit 0
command -v patch >/dev/null && patch --batch --fuzz=5 --no-backup-if-mismatch -p1 -i "$1"
"""
RESTORE: Final = 'xargs -0 -r git checkout -q "$1" --'
REMOVE: Final = "xargs -0 -r rm -rf --"


@dataclass
class Repository:
    """`folder` inside `sandbox`; `tree` is what it was once it was ready, and `desk` a folder of ours beside it."""

    sandbox: Sandbox
    folder: str
    desk: str = ""
    tree: str = ""

    async def check_out(self, base_commit: str) -> None:
        await self._must(CHECKOUT, f"base_commit {base_commit or 'HEAD'}", base_commit)

    async def make_ready(self) -> None:
        """The future goes, and what is there now is the base of every patch."""
        self.desk = (await self._must("mktemp -d", "a folder beside the repository")).stdout.text.strip()
        await self._must(SCRUB, "the history after the base")
        self.tree = (await self._must(TREE, "the repository as it was given", self.desk)).stdout.text.strip()

    async def take_patch(self, max_bytes: int) -> tuple[str | None, str]:
        """Everything that changed since, untracked and binary files too; None with the reason."""
        try:
            result = await self._git(DIFF, self.desk, self.tree, max_output=max_bytes + 1)
        except SandboxEnded as ended:
            return None, ended.message
        except RolloutError as error:
            if not is_of_the_sandbox(error):
                raise
            return None, f"no patch could be taken: {error.message}"
        if not result.ok:
            return None, f"no patch could be taken: {result.stderr.text.strip()[-300:] or 'git did not end'}"
        if result.stdout.dropped or len(result.stdout.data) > max_bytes:
            return None, f"the patch is larger than {max_bytes} bytes"
        return result.stdout.data.decode("utf-8", "surrogateescape"), ""

    async def apply(self, patch: str, *, loosely: bool) -> str:
        """ "" when it applied; else what git said."""
        path = f"{self.desk}/{secrets.token_hex(4)}.patch"
        text = patch if patch.endswith("\n") else patch + "\n"
        await self.sandbox.put(path, text.encode("utf-8", "surrogateescape"))
        result = await self._git(APPLY, path, "1" if loosely else "")
        if result.ok:
            return ""
        return result.stderr.text.strip()[-400:] or "git did not end in time"

    async def is_full(self) -> bool:
        """Whether the disk takes no more: tried, for what git says may be the name of a file."""
        try:
            await self.sandbox.put(f"{self.desk}/room", bytes(ROOM))
            await self.sandbox.put(f"{self.folder}/.git/gym-room", bytes(ROOM))
            await self.sandbox.remove(f"{self.folder}/.git/gym-room")
        except FileProblem as problem:
            return problem.errno in (errno.ENOSPC, errno.EDQUOT)
        return False

    async def texts(self, paths: Sequence[str]) -> dict[str, str]:
        """Of those that are not too large and in UTF-8."""
        found: dict[str, str] = {}
        for path in paths:
            with contextlib.suppress(UnicodeDecodeError):
                found[path] = (await self.sandbox.get(f"{self.folder}/{path}", max_bytes=MAX_TEXT)).decode()
        return found

    async def fits(self, patch: str) -> bool:
        path = f"{self.desk}/{secrets.token_hex(4)}.patch"
        await self.sandbox.put(path, patch if patch.endswith("\n") else patch + "\n")
        return (await self._git('git apply --whitespace=nowarn --check "$1"', path)).ok

    async def restore_protected(self, task: Task) -> tuple[str, ...]:
        """Protected paths are as they were, whatever a patch did to them; which ones."""
        listing = await self._must(CHANGED, "the list of changed files", self.desk, self.tree)
        words = listing.stdout.data.decode("utf-8", "surrogateescape").split("\0")
        changed = [(path, kind) for kind, path in zip(words[::2], words[1::2], strict=False)]
        mine = [(path, kind) for path, kind in changed if is_protected(path, task)]
        await self._each(REMOVE, [path for path, kind in mine if kind == "A"])
        await self._each(RESTORE, [path for path, kind in mine if kind != "A"], self.tree)
        return tuple(path for path, _ in mine)

    async def existing(self, paths: Sequence[str]) -> tuple[str, ...]:
        script = 'for path in "$@"; do if [ -f "$path" ]; then printf "%s\\n" "$path"; fi; done'
        found = await self._must(script, "the test files", *paths)
        return tuple(found.stdout.text.splitlines())

    async def _each(self, script: str, paths: Sequence[str], *arguments: str) -> None:
        if paths:
            names = "\0".join(paths).encode("utf-8", "surrogateescape") + b"\0"
            await self._must(script, "the files that are not the patch's", *arguments, stdin=names)

    async def _must(self, script: str, what: str, *arguments: str, stdin: bytes = b"") -> ExecResult:
        result = await self._git(script, *arguments, stdin=stdin)
        if not result.ok:
            said = result.stderr.text.strip()[-300:] or f"exit code {result.exit_code}"
            raise RolloutError("sandbox", f"{self.folder}: {what}: {said}", retryable=result.timed_out or result.oom)
        return result

    async def _git(self, script: str, *arguments: str, stdin: bytes = b"", max_output: int = 16 << 20) -> ExecResult:
        argv = ["sh", "-c", script, "sh", *arguments]
        return await self.sandbox.exec(
            argv, cwd=self.folder, env=GIT_ENV, stdin=stdin, timeout=GIT_SECONDS, max_output=max_output
        )
