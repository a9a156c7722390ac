"""The pool for short programs on real sandboxes of each provider: what they get, and that nothing of one is left."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gym.runtime.trial_broker import TrialAccess
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.short_programs import ProgramLimits, ProgramOutcome, Programs

IMAGE = "python:3.13-slim"
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not here")
PROVIDERS = [
    "subprocess",
    pytest.param("bubblewrap", marks=needs_bwrap),
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="module", params=PROVIDERS)
def access(request: pytest.FixtureRequest, sandbox_broker: Callable[..., TrialAccess]) -> TrialAccess:
    return sandbox_broker(request.param)


@pytest.fixture
async def programs(access: TrialAccess) -> AsyncIterator[Programs]:
    """One place: what a program leaves, the next one would find."""
    async with Sandboxes(*access) as sandboxes:
        pool = Programs(sandboxes, image=IMAGE, max_sandboxes=1, memory=512 << 20)
        yield pool
        await pool.aclose()
        assert await sandboxes.alive() == ()


async def run(
    programs: Programs, code: str, given: str = "", *, fn: str | None = None, **bounds: Any
) -> ProgramOutcome:
    limits = ProgramLimits(**{"cpu": 2.0, "memory": 512 << 20, "output": 1 << 20, **bounds})
    (outcome,) = await programs.run(code, [given], fn=fn, bounds=limits)
    return outcome


async def test_streams_are_right_as_text_and_as_bytes(programs: Programs) -> None:
    assert (await run(programs, "print(input()[::-1])", "héllo\nrest")).stdout == "olléh\n"
    code = "import sys\nb = sys.stdin.buffer\nprint(b.readline(), b.readline(), flush=True)\n"
    code += "sys.stdout.buffer.write(b.read())"
    assert (await run(programs, code, "a\nb\nc\nd")).stdout == "b'a\\n' b'b\\n'\nc\nd"
    assert (await run(programs, "print(stdin.readline(), open(0).read())", "a\nb")).stdout == "a\n \n"
    assert (await run(programs, "import os\nprint(os.read(0, 3))", "abcd")).stdout == "b'abc'\n"


async def test_inputs_run_in_order_until_one_does_not_end_well(programs: Programs) -> None:
    outcomes = await programs.run("print(1 // int(input()))", ["1", "0", "1"], bounds=ProgramLimits(cpu=2))
    assert [outcome.end for outcome in outcomes] == ["ok", "error"]
    assert "ZeroDivisionError" in outcomes[1].error
    assert 'File "<program>", line 1' in outcomes[1].traceback
    assert "zygote" not in outcomes[1].traceback


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("print(sqrt(9), Counter('aa')['a'], inf, reduce(add, [1, 2]))", "3.0 2 inf 3\n"),
        ("print('before')\nif True:\n    return\nprint('after')", "before\n"),
        ("print(1)\nexit(3)", "1\n"),
        ("import atexit\natexit.register(lambda: print('last'))\nprint('first')", "first\nlast\n"),
        ("import threading\nthreading.stack_size(1 << 26)\nthreading.Thread(target=lambda: print(5)).start()", "5\n"),
        ("def f(n): return n and 1 + f(n - 1)\nprint(f(20000))", "20000\n"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    b: int\nprint(A(1))", "A(b=1)\n"),
        ("n = 1\ndef f():\n    global n\n    n += 1\nf()\nprint(n, __name__)", "2 __main__\n"),
        ("print(len(str(10 ** 20000)))", "20001\n"),
    ],
)
async def test_programs_find_what_they_usually_need(programs: Programs, code: str, stdout: str) -> None:
    outcome = await run(programs, code)
    assert (outcome.end, outcome.stdout) == ("ok", stdout), outcome


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("class Solution:\n    def f(self, a, b): return a + b", "5"),
        ("def f(a, b): return (a, [b, None], {'k': 1.5})", '[2, [3, null], {"k": 1.5}]'),
        ("from fractions import Fraction\ndef f(a, b): return Fraction(a, b) * 3", "2.0"),
        ("def f(a, b): return {a, b}", None),
        ("def f(a, b): return f", None),
        ("class Same(int):\n    def __eq__(self, other): return True\ndef f(a, b): return Same(7)", "7"),
    ],
)
async def test_a_functions_value_comes_as_json(programs: Programs, code: str, value: str | None) -> None:
    outcome = await run(programs, code, "2\n3", fn="f")
    assert (outcome.end, outcome.value) == ("ok", value)


async def test_a_function_that_is_not_there_is_an_error(programs: Programs) -> None:
    assert "'f'" in (await run(programs, "def g(): pass", "1", fn="f")).error


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("while True: pass", "time"),
        ("import time\ntime.sleep(1000)", "time"),
        ("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "time"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "time"),
        ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", "time"),
        (
            "import threading\nfor _ in range(4): threading.Thread(target=lambda: exec('while True: pass')).start()",
            "time",
        ),
        ("print('a' * (2 << 20))", "output"),
        ("while True: print('a' * 65536, flush=True)", "output"),
        ("x = 'a' * (2 << 30)", "error"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "error"),
        ("import os\nos._exit(0)", "error"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "error"),
        ("import ctypes\nctypes.string_at(0)", "error"),
        ("import sys\nsys.stdout.close()\nsys.stdout = None", "error"),
        (
            "import threading\nimport time\n"
            "while True: threading.Thread(target=lambda: time.sleep(99), daemon=True).start()",
            "error",
        ),
        ("with open('big', 'wb') as file:\n    while True: file.write(b'a' * (1 << 20))", "error"),
        ("raise BaseException", "error"),
        ("class E(Exception):\n    def __repr__(self): raise E\nraise E", "error"),
    ],
)
async def test_whatever_a_program_does_it_ends_and_the_next_one_runs(programs: Programs, code: str, end: str) -> None:
    # Time enough for what is to end otherwise: on a busy machine even a page of memory costs more.
    assert (await run(programs, code, cpu=0.7 if end == "time" else 10, memory=256 << 20)).end == end
    assert (await run(programs, "print(1)")).stdout == "1\n"


BEYOND = [
    "import os\nos.fork()",
    "import subprocess\nsubprocess.run(['true'])",
    "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "import os\nos.execv('/bin/sh', ['sh'])",
    "import os\nos.posix_spawn('/bin/sh', ['sh'], {})",
    "import os\nos.kill(os.getppid(), 9)",
    "import os\nos.killpg(os.getpgid(os.getppid()), 19)",
    "import os\nos.pidfd_open(os.getppid())",
    "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))",
    "import os\nos.sched_setaffinity(os.getppid(), {0})",
    "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "import ctypes, os\nassert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
    "import ctypes\nassert ctypes.CDLL(None).shmget(5, 4096, 0o1666) >= 0",
    "import ctypes\nassert ctypes.CDLL(None).msgget(5, 0o1666) >= 0",
    "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "import ctypes\nassert ctypes.CDLL(None).prctl(22, 0, 0, 0, 0) == 0",
]


@pytest.mark.parametrize("code", BEYOND)
async def test_no_call_reaches_beyond_the_process(programs: Programs, code: str) -> None:
    outcome = await run(programs, code)
    assert outcome.end == "error", outcome
    assert (await run(programs, "print(1)")).stdout == "1\n"


async def test_the_isolation_holds_on_every_provider(programs: Programs) -> None:
    await run(programs, "pass")
    assert [sandbox.filtered for sandbox in programs._all] == [True]


async def test_nothing_of_a_program_is_left_for_the_next(programs: Programs, request: pytest.FixtureRequest) -> None:
    own = (".", "..")  # plain processes share the rest with this machine: nothing of it is tried there
    shared = ("/tmp", "/dev/shm", "/programs", "/var/tmp", "/run")
    places = own if "subprocess" in request.node.name else own + shared
    leave = """
import os, sys, builtins, math, json, random
for place in PLACES:
    try:
        os.makedirs(place + '/left-over/deep')
        open(place + '/left-over/deep/file', 'w').write('x')
        os.chmod(place + '/left-over/deep', 0)
        os.chmod(place + '/left-over', 0)
    except OSError:
        pass
os.environ['LEFT'] = '1'
builtins.left = math.left = 1
json.loads = None
random.seed(5)
sys.path.insert(0, os.getcwd())
os.umask(0o777)
"""
    look = """
import os, builtins, math, json, random
places = ('.', '/tmp', '/dev/shm', '/programs', '..', '/var/tmp', '/run')
found = [p for p in places if os.path.lexists(p + '/left-over')]
print(found, os.environ.get('LEFT'), hasattr(builtins, 'left'), hasattr(math, 'left'), json.loads('1'))
print(os.listdir('.'), oct(os.umask(0)), random.random())
"""
    leave, look = (f"PLACES = {places}\n{code}" for code in (leave, look))
    before = await run(programs, look)
    assert before.stdout.startswith("[] None False False 1\n[] 0o22 "), before
    for _ in range(2):
        await run(programs, leave)
        assert (await run(programs, look)).stdout == before.stdout


BEFORE = """
import os
for path in ('/dev/cache', '/dev/shm/cache', '/tmp/cache', '/programs/cache', '/dev/mqueue/cache', '/run/cache'):
    try:
        open(path, 'w').write("print('the answer of another')")
    except OSError:
        pass
for name in ('/dev/stdin', '/dev/fd', '/dev/stdout'):
    try:
        os.unlink(name)
        os.symlink('/dev/null', name)
    except OSError:
        pass
"""
AFTER = """
import os
for folder in ('/dev', '/dev/shm', '/tmp', '/programs', '/dev/mqueue', '/run'):
    if os.path.exists(folder + '/cache'):
        exec(open(folder + '/cache').read())
print(open('/dev/stdin').read())
"""


async def test_the_device_folder_does_not_outlive_a_program(programs: Programs, request: pytest.FixtureRequest) -> None:
    if "subprocess" in request.node.name:
        pytest.skip("plain processes share this machine's: nothing is tried there")
    await run(programs, BEFORE, "3")
    assert (await run(programs, AFTER, "4")).stdout == "4\n"


async def test_a_place_that_is_not_as_it_was_is_thrown_away(programs: Programs, request: pytest.FixtureRequest) -> None:
    if "subprocess" in request.node.name:
        pytest.skip("plain processes share this machine's: nothing is tried there")
    look = "import os\nprint(oct(os.stat('/dev/shm').st_mode), os.listxattr('/dev/shm'))"
    before = await run(programs, look)
    (first,) = programs._all
    outcome = await run(programs, "import os\nos.chmod('/dev/shm', 0o1755)")
    assert outcome.end in ("ok", "error")
    assert (first in programs._all) == (outcome.end == "error"), "who may change it costs the place"
    assert (await run(programs, look)).stdout == before.stdout


async def test_with_a_sandbox_for_each_rollout_none_is_used_twice(access: TrialAccess) -> None:
    async with Sandboxes(*access) as sandboxes:
        pool = Programs(sandboxes, image=IMAGE, max_sandboxes=1, fresh=True)
        seen = []
        for _ in range(2):
            async with pool.for_rollout() as programs:
                for _ in range(2):
                    assert (await run(programs, "print(1)")).stdout == "1\n"
                    seen += [one.id for one in await sandboxes.alive()]
            assert await sandboxes.alive() == ()
        assert (seen[0], seen[2]) == (seen[1], seen[3])
        assert seen[0] != seen[2]


async def test_output_that_is_not_text_is_an_error_with_its_reason(programs: Programs) -> None:
    for code in ("import os\nos.write(1, bytes([255, 10]))", "print('\\udcff')"):
        outcome = await run(programs, code)
        assert (outcome.end, outcome.error) == ("error", "its output is not UTF-8"), outcome
    for code in ("raise ValueError('\\ud800')", "print('\\ud800')"):
        outcome = await run(programs, code)
        assert outcome.end == "error"
        assert (outcome.error + outcome.traceback + outcome.stdout).encode(), "a lone surrogate is not UTF-8"
    value = (await run(programs, "def f(a): return '\\ud800'", "1", fn="f")).value
    assert value == '"\\ud800"'


async def test_a_program_that_sleeps_between_its_words_takes_too_much_time(programs: Programs) -> None:
    code = "import os, time\nwhile True:\n    time.sleep(0.03)\n    os.write(2, b'.')"
    outcome = await run(programs, code, cpu=2.0)
    assert outcome.end == "time"
    assert outcome.cpu < 2.0


async def test_a_program_sees_neither_the_ones_before_nor_their_inputs(programs: Programs) -> None:
    word = "".join(["se", "cret-of-the-one-before"])
    await run(programs, f"x = input()\n# {word}\nprint('{word}')", word)
    search = """
import ctypes
found = 0  # the word as a whole is never made here: what looks for it would find its own
for line in open('/proc/self/maps'):
    bounds, rights = line.split()[:2]
    begin, end = (int(one, 16) for one in bounds.split('-'))
    if rights.startswith('rw') and end - begin < 1 << 28:
        held = ctypes.string_at(begin, end - begin)
        at = held.find(b'cret-of-the-one-')
        while at >= 0:
            found += held[max(0, at - 2) : at] == b'se' and held[at + 16 : at + 22] == b'before'
            at = held.find(b'cret-of-the-one-', at + 1)
print(found)
"""
    outcome = await run(programs, search)
    planted = await run(programs, "kept = ''.join(['se', 'cret-of-the-one-', 'before'])\n" + search)
    assert outcome.end == planted.end
    if outcome.end == "ok":  # who may not look into itself sees nothing either
        assert outcome.stdout == "0\n"
        assert int(planted.stdout) > 0  # what is there is found
    else:
        assert "Permission" in outcome.error, outcome


async def test_a_program_cannot_speak_for_what_runs_it(programs: Programs) -> None:
    """Through its own descriptors alone: on `subprocess`, those of other processes are this machine's."""
    code = """
import os, struct
frame = b'{"end": "ok", "cpu": 0, "seconds": 0, "stdout": "forged"}'
for fd in range(256):
    for data in (struct.pack('!I', len(frame)) + frame, struct.pack('!I', 14) + b'{"done": true}'):
        try:
            os.write(fd, data)
        except OSError:
            pass
os._exit(0)
"""
    outcome = await run(programs, code)
    assert (outcome.end, outcome.stdout == "forged") == ("error", False)
    assert (await run(programs, "print(1)")).stdout == "1\n"


async def test_a_place_is_replaced_when_it_breaks_and_after_its_uses(access: TrialAccess) -> None:
    async with Sandboxes(*access) as sandboxes:
        pool = Programs(sandboxes, image=IMAGE, max_sandboxes=1, uses=3)
        for _ in range(3):
            await run(pool, "pass")
        assert await sandboxes.alive() == ()
        await run(pool, "pass")
        (only,) = await sandboxes.alive()
        await sandboxes.remove(only.id)
        assert (await run(pool, "print(1)")).stdout == "1\n"  # lost in between: asked for again
        await pool.aclose()
