"""Commands: what reaches them, what comes back, and what is told when they cannot be."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import Lab, check, fail, out, same, sh
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, Rlimits

ALL_BYTES = bytes(range(256)) * 64


async def streams_apart(lab: Lab) -> None:
    """stdout and stderr are told apart"""
    result = await sh(await lab.box(), "echo one; echo two >&2")
    same((result.stdout.text, result.stderr.text), ("one\n", "two\n"))


async def exit_codes(lab: Lab) -> None:
    """an exit code comes back as it was"""
    box = await lab.box()
    for code in (0, 1, 7, 126, 127, 255):
        same((await sh(box, f"exit {code}")).exit_code, code)


async def signals(lab: Lab) -> None:
    """a signal is told apart from an exit code"""
    box = await lab.box()
    for name, number in (("SEGV", 11), ("TERM", 15), ("KILL", 9)):
        result = await sh(box, f"kill -{name} $$")
        same((result.exit_code, result.signal, result.timed_out), (None, number, False))


async def _refused(lab: Lab, request: ExecRequest) -> None:
    box = await lab.box()
    try:
        result = await box.exec(request)
    except RolloutError as error:
        check(not error.retryable, "the failure is marked as one that another attempt may fix")
        return
    fail(f"no error; exit code {result.exit_code}")


async def missing_command(lab: Lab) -> None:
    """a command that is not there is told apart from one that exits with 127"""
    await _refused(lab, ExecRequest(argv=("no-such-command-anywhere",)))


async def forbidden_command(lab: Lab) -> None:
    """a file that may not be run is an error in words"""
    await _refused(lab, ExecRequest(argv=("/etc/passwd",)))


async def missing_cwd(lab: Lab) -> None:
    """a working directory that is not there is an error in words"""
    await _refused(lab, ExecRequest(argv=("true",), cwd="/no/such/place"))


async def zero_byte(lab: Lab) -> None:
    """an argument with a zero byte is refused, not cut"""
    await _refused(lab, ExecRequest(argv=("echo", "a\0b")))


async def argv_unchanged(lab: Lab) -> None:
    """arguments arrive as they are: blanks, quotes, newlines, stars, empty ones"""
    words = ("a b", "", "'", '"', "$HOME", "*", "\\", "new\nline", "-n", "~")
    result = await (await lab.box()).exec(ExecRequest(argv=("sh", "-c", 'printf "%s\\0" "$@"', "x", *words)))
    same(result.stdout.data, "".join(f"{word}\0" for word in words).encode())


async def utf8_everywhere(lab: Lab) -> None:
    """UTF-8 goes through arguments, environment, input and output"""
    text = "Grüße, 世界 🌍 ñ"
    result = await sh(await lab.box(), 'printf %s "$1$V"; cat', env={"V": text}, stdin=text.encode())
    same(result.stdout.text, text * 2)


async def raw_output(lab: Lab) -> None:
    """output that is no UTF-8 keeps its bytes"""
    same((await sh(await lab.box(), "printf '\\377\\376\\200a'")).stdout.data, b"\xff\xfe\x80a")


async def binary_through_pipe(lab: Lab) -> None:
    """every byte value survives input and output"""
    same((await sh(await lab.box(), "cat", stdin=ALL_BYTES)).stdout.data, ALL_BYTES)


async def megabyte_of_arguments(lab: Lab) -> None:
    """one MiB of arguments reaches a command"""
    words = tuple("x" * 1023 for _ in range(1024))
    result = await (await lab.box()).exec(ExecRequest(argv=("sh", "-c", 'echo $# "${#1024}"', "x", *words)))
    check(result.stdout.text.startswith("1024 "), f"found {result.stdout.text[:80]!r} {result.stderr.text[:80]!r}")


async def big_environment(lab: Lab) -> None:
    """one hundred KiB in one variable reaches a command"""
    same(await out(await lab.box(), "echo ${#BIG}", env={"BIG": "x" * 100_000}), "100000")


async def script_by_stdin(lab: Lab) -> None:
    """a script of one MiB runs from standard input"""
    script = b"#" + b"x" * (1 << 20) + b"\necho end\n"
    same((await (await lab.box()).exec(ExecRequest(argv=("sh", "-s"), stdin=script))).stdout.text, "end\n")


async def env_reaches(lab: Lab) -> None:
    """variables of a request reach the command, odd values too"""
    values = {"A": "1", "B": "two words", "C": "a=b=c", "D": "new\nline", "E": ""}
    text = await out(await lab.box(), 'printf "%s|%s|%s|%s|%s|%s" "$A" "$B" "$C" "$D" "$E" "${E+set}"', env=values)
    same(text, "1|two words|a=b=c|new\nline||set")


async def env_of_one(lab: Lab) -> None:
    """variables of one command are not seen by the next"""
    box = await lab.box()
    await sh(box, "true", env={"ONLY_ONCE": "1"})
    same(await out(box, "echo [$ONLY_ONCE]"), "[]")


async def env_of_sandbox(lab: Lab) -> None:
    """variables of the sandbox are seen by every command, and a request may change them"""
    box = await lab.fresh(env={"OF_ALL": "yes", "CHANGED": "old"})
    same(await out(box, "echo $OF_ALL $CHANGED", env={"CHANGED": "new"}), "yes new")


async def path_is_set(lab: Lab) -> None:
    """PATH and HOME are set, and HOME can be entered"""
    same(await out(await lab.box(), 'test -n "$PATH" && cd "$HOME" && echo ok'), "ok")


async def cwd_honoured(lab: Lab) -> None:
    """a command starts where it was told to"""
    same(await out(await lab.box(), "pwd", cwd="/usr"), "/usr")


async def cwd_stays(lab: Lab) -> None:
    """a `cd` of one command does not move the next, and files are named from the same place"""
    box, name = await lab.box(), lab.name()
    here = await out(box, "pwd; cd /usr")
    same(await out(box, "pwd"), here)
    await box.write_file(name, b"here")
    same(await out(box, f"cat {here}/{name}"), "here")


async def stdin_whole(lab: Lab) -> None:
    """four MiB of input arrive whole"""
    same(await out(await lab.box(), "wc -c", stdin=b"x" * (4 << 20)), str(4 << 20))


async def stdin_ends(lab: Lab) -> None:
    """without input a command reads an end of file"""
    same((await sh(await lab.box(), "cat; echo done")).stdout.text, "done\n")


async def stdin_unread(lab: Lab) -> None:
    """input that nobody reads holds nobody up"""
    result = await sh(await lab.box(), "exit 3", stdin=b"x" * (8 << 20))
    same(result.exit_code, 3)


async def many_at_once(lab: Lab) -> None:
    """thirty-two commands at once keep their output apart"""
    box = await lab.box()
    results = await asyncio.gather(*(sh(box, f"echo {i}; echo {i} >&2; exit {i}") for i in range(32)))
    found = [(r.exit_code, r.stdout.text, r.stderr.text) for r in results]
    same(found, [(i, f"{i}\n", f"{i}\n") for i in range(32)])


async def one_after_another(lab: Lab) -> None:
    """two hundred commands one after another all answer"""
    box = await lab.box()
    for i in range(200):
        result = await box.exec(ExecRequest(argv=("echo", str(i))))
        same(result.stdout.data, b"%d\n" % i)


async def time_is_told(lab: Lab) -> None:
    """the time that a command took is told, the processor's apart"""
    box = await lab.box()
    slept = await sh(box, "sleep 0.3")
    check(slept.seconds >= 0.3, f"told {slept.seconds} s")
    worked = await sh(box, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    check(worked.cpu_seconds > 0, "no processor time was told")
    check(slept.max_rss > 0, "no memory was told")


async def own_session(lab: Lab) -> None:
    """a command has no terminal and its signals are as a shell expects them"""
    box = await lab.box()
    same(await out(box, "tty || true"), "not a tty")
    same((await sh(box, "(kill -PIPE $(sh -c 'echo $PPID')); exit 0")).exit_code, 0)
    ignored = await out(box, "grep -E '^Sig(Ign|Blk)' /proc/self/status | awk '{print $2}' | sort -u")
    same(ignored, "0000000000000000")


async def nothing_inherited(lab: Lab) -> None:
    """a command has its three streams and no other file open"""
    result = await (await lab.box()).exec(ExecRequest(argv=("ls", "-ln", "/proc/self/fd")))
    shown = [line.split(" -> ") for line in result.stdout.text.splitlines() if " -> " in line]
    open_files = [name.split()[-1] for name, target in shown if not target.endswith("/fd")]  # but for what it lists
    same(sorted(open_files), ["0", "1", "2"])


async def limit_cpu(lab: Lab) -> None:
    """`limits.cpu_seconds` ends a command that works for longer"""
    result = await sh(await lab.box(), "while :; do :; done", timeout=30, limits=Rlimits(cpu_seconds=1))
    check(result.signal in (24, 9) and not result.timed_out, f"ended by {result.signal}, timed_out={result.timed_out}")


async def limit_file_size(lab: Lab) -> None:
    """`limits.file_size` bounds what a command may write to a file"""
    box, name = await lab.box(), lab.name()
    await sh(box, f"head -c 1000000 /dev/zero > {name}", limits=Rlimits(file_size=4096))
    same((await box.stat(name)).size, 4096)


async def limit_open_files(lab: Lab) -> None:
    """`limits.open_files` and `limits.memory` are those of the command"""
    asked = Rlimits(open_files=64, memory=1 << 30)
    same((await out(await lab.box(), "ulimit -n; ulimit -v", limits=asked)).split(), ["64", str(1 << 20)])


async def no_core(lab: Lab) -> None:
    """no core files are written"""
    same(await out(await lab.box(), "ulimit -c"), "0")
