"""Commands: what reaches them, what comes back, and what is reported when they cannot run."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import Harness, check, fail, out, same, sh
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, Rlimits

ALL_BYTES = bytes(range(256)) * 64


async def streams_apart(harness: Harness) -> None:
    """stdout and stderr are kept apart"""
    result = await sh(await harness.sandbox(), "echo one; echo two >&2")
    same((result.stdout.text, result.stderr.text), ("one\n", "two\n"))


async def exit_codes(harness: Harness) -> None:
    """an exit code comes back as it was"""
    sandbox = await harness.sandbox()
    for code in (0, 1, 7, 126, 127, 255):
        same((await sh(sandbox, f"exit {code}")).exit_code, code)


async def signals(harness: Harness) -> None:
    """a signal is reported as a signal, not as an exit code"""
    sandbox = await harness.sandbox()
    for name, number in (("SEGV", 11), ("TERM", 15), ("KILL", 9)):
        result = await sh(sandbox, f"kill -{name} $$")
        same((result.exit_code, result.signal, result.timed_out), (None, number, False))


async def _refused(harness: Harness, request: ExecRequest) -> None:
    sandbox = await harness.sandbox()
    try:
        result = await sandbox.exec(request)
    except RolloutError as error:
        check(not error.retryable, "the failure is marked as one that another attempt may fix")
        return
    fail(f"no error; exit code {result.exit_code}")


async def missing_command(harness: Harness) -> None:
    """a missing command is an error, not exit code 127"""
    await _refused(harness, ExecRequest(argv=("no-such-command-anywhere",)))


async def forbidden_command(harness: Harness) -> None:
    """a file that may not be run is an error in words"""
    await _refused(harness, ExecRequest(argv=("/etc/passwd",)))


async def missing_cwd(harness: Harness) -> None:
    """a working directory that is not there is an error in words"""
    await _refused(harness, ExecRequest(argv=("true",), cwd="/no/such/place"))


async def zero_byte(harness: Harness) -> None:
    """an argument with a zero byte is refused, not cut"""
    await _refused(harness, ExecRequest(argv=("echo", "a\0b")))


async def argv_unchanged(harness: Harness) -> None:
    """arguments arrive as they are: blanks, quotes, newlines, stars, empty ones"""
    words = ("a b", "", "'", '"', "$HOME", "*", "\\", "new\nline", "-n", "~")
    result = await (await harness.sandbox()).exec(ExecRequest(argv=("sh", "-c", 'printf "%s\\0" "$@"', "x", *words)))
    same(result.stdout.data, "".join(f"{word}\0" for word in words).encode())


async def utf8_everywhere(harness: Harness) -> None:
    """UTF-8 goes through arguments, environment, input and output"""
    text = "Grüße, 世界 🌍 ñ"
    result = await sh(await harness.sandbox(), 'printf %s "$1$V"; cat', env={"V": text}, stdin=text.encode())
    same(result.stdout.text, text * 2)


async def raw_output(harness: Harness) -> None:
    """output that is not UTF-8 keeps its bytes"""
    same((await sh(await harness.sandbox(), "printf '\\377\\376\\200a'")).stdout.data, b"\xff\xfe\x80a")


async def binary_through_pipe(harness: Harness) -> None:
    """every byte value survives input and output"""
    same((await sh(await harness.sandbox(), "cat", stdin=ALL_BYTES)).stdout.data, ALL_BYTES)


async def megabyte_of_arguments(harness: Harness) -> None:
    """one MiB of arguments reaches a command"""
    words = tuple("x" * 1023 for _ in range(1024))
    result = await (await harness.sandbox()).exec(ExecRequest(argv=("sh", "-c", 'echo $# "${#1024}"', "x", *words)))
    check(result.stdout.text.startswith("1024 "), f"found {result.stdout.text[:80]!r} {result.stderr.text[:80]!r}")


async def big_environment(harness: Harness) -> None:
    """one hundred KiB in one variable reaches a command"""
    same(await out(await harness.sandbox(), "echo ${#BIG}", env={"BIG": "x" * 100_000}), "100000")


async def script_by_stdin(harness: Harness) -> None:
    """a script of one MiB runs from standard input"""
    script = b"#" + b"x" * (1 << 20) + b"\necho end\n"
    same((await (await harness.sandbox()).exec(ExecRequest(argv=("sh", "-s"), stdin=script))).stdout.text, "end\n")


async def env_reaches(harness: Harness) -> None:
    """variables of a request reach the command, odd values too"""
    values = {"A": "1", "B": "two words", "C": "a=b=c", "D": "new\nline", "E": ""}
    text = await out(
        await harness.sandbox(), 'printf "%s|%s|%s|%s|%s|%s" "$A" "$B" "$C" "$D" "$E" "${E+set}"', env=values
    )
    same(text, "1|two words|a=b=c|new\nline||set")


async def env_of_one(harness: Harness) -> None:
    """variables of one command are not seen by the next"""
    sandbox = await harness.sandbox()
    await sh(sandbox, "true", env={"ONLY_ONCE": "1"})
    same(await out(sandbox, "echo [$ONLY_ONCE]"), "[]")


async def env_of_sandbox(harness: Harness) -> None:
    """variables of the sandbox are seen by every command, and a request may change them"""
    sandbox = await harness.fresh(env={"OF_ALL": "yes", "CHANGED": "old"})
    same(await out(sandbox, "echo $OF_ALL $CHANGED", env={"CHANGED": "new"}), "yes new")


async def path_is_set(harness: Harness) -> None:
    """PATH and HOME are set, and HOME can be entered"""
    same(await out(await harness.sandbox(), 'test -n "$PATH" && cd "$HOME" && echo ok'), "ok")


async def cwd_honoured(harness: Harness) -> None:
    """a command starts in its `cwd`"""
    same(await out(await harness.sandbox(), "pwd", cwd="/usr"), "/usr")


async def cwd_stays(harness: Harness) -> None:
    """a `cd` of one command does not move the next, and files are named from the same place"""
    sandbox, name = await harness.sandbox(), harness.name()
    here = await out(sandbox, "pwd; cd /usr")
    same(await out(sandbox, "pwd"), here)
    await sandbox.write_file(name, b"here")
    same(await out(sandbox, f"cat {here}/{name}"), "here")


async def stdin_whole(harness: Harness) -> None:
    """four MiB of input arrive whole"""
    same(await out(await harness.sandbox(), "wc -c", stdin=b"x" * (4 << 20)), str(4 << 20))


async def stdin_ends(harness: Harness) -> None:
    """without input a command reads an end of file"""
    same((await sh(await harness.sandbox(), "cat; echo done")).stdout.text, "done\n")


async def stdin_unread(harness: Harness) -> None:
    """input that is not read blocks nothing"""
    result = await sh(await harness.sandbox(), "exit 3", stdin=b"x" * (8 << 20))
    same(result.exit_code, 3)


async def many_at_once(harness: Harness) -> None:
    """thirty-two commands at once keep their output apart"""
    sandbox = await harness.sandbox()
    results = await asyncio.gather(*(sh(sandbox, f"echo {i}; echo {i} >&2; exit {i}") for i in range(32)))
    found = [(r.exit_code, r.stdout.text, r.stderr.text) for r in results]
    same(found, [(i, f"{i}\n", f"{i}\n") for i in range(32)])


async def one_after_another(harness: Harness) -> None:
    """two hundred commands one after another all answer"""
    sandbox = await harness.sandbox()
    for i in range(200):
        result = await sandbox.exec(ExecRequest(argv=("echo", str(i))))
        same(result.stdout.data, b"%d\n" % i)


async def time_is_reported(harness: Harness) -> None:
    """the time that a command took is reported, CPU time apart"""
    sandbox = await harness.sandbox()
    slept = await sh(sandbox, "sleep 0.3")
    check(slept.seconds >= 0.3, f"reported {slept.seconds} s")
    worked = await sh(sandbox, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    check(worked.cpu_seconds > 0, "no CPU time was reported")
    check(slept.max_rss > 0, "no memory was reported")


async def own_session(harness: Harness) -> None:
    """a command has no terminal and its signals are as a shell expects them"""
    sandbox = await harness.sandbox()
    same(await out(sandbox, "tty || true"), "not a tty")
    same((await sh(sandbox, "(kill -PIPE $(sh -c 'echo $PPID')); exit 0")).exit_code, 0)
    masks = await out(sandbox, "grep -E '^Sig(Ign|Blk)' /proc/self/status | awk '{print $2}'")
    # Not 32 and 33, which are the C library's own: what its posix_spawn has started ignores them, and so on down.
    same([int(mask, 16) & 0x7FFF_FFFF for mask in masks.splitlines()], [0, 0])


async def nothing_inherited(harness: Harness) -> None:
    """a command has its three streams and no other file open"""
    result = await (await harness.sandbox()).exec(ExecRequest(argv=("ls", "-ln", "/proc/self/fd")))
    shown = [line.split(" -> ") for line in result.stdout.text.splitlines() if " -> " in line]
    open_files = [name.split()[-1] for name, target in shown if not target.endswith("/fd")]  # but for what it lists
    same(sorted(open_files), ["0", "1", "2"])


async def limit_cpu(harness: Harness) -> None:
    """`limits.cpu_seconds` ends a command that works for longer"""
    result = await sh(await harness.sandbox(), "while :; do :; done", timeout=30, limits=Rlimits(cpu_seconds=1))
    check(result.signal in (24, 9) and not result.timed_out, f"ended by {result.signal}, timed_out={result.timed_out}")


async def limit_file_size(harness: Harness) -> None:
    """`limits.file_size` bounds what a command may write to a file"""
    sandbox, name = await harness.sandbox(), harness.name()
    await sh(sandbox, f"head -c 1000000 /dev/zero > {name}", limits=Rlimits(file_size=4096))
    same((await sandbox.stat(name)).size, 4096)


async def limit_open_files(harness: Harness) -> None:
    """`limits.open_files` and `limits.memory` are those of the command"""
    asked = Rlimits(open_files=64, memory=1 << 30)
    same((await out(await harness.sandbox(), "ulimit -n; ulimit -v", limits=asked)).split(), ["64", str(1 << 20)])


async def no_core(harness: Harness) -> None:
    """no core files are written"""
    same(await out(await harness.sandbox(), "ulimit -c"), "0")
