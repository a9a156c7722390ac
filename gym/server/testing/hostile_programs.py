"""Programs that a policy may write to get out of a 0: each is worth 0, with a reason, and no failure."""

from __future__ import annotations

from typing import Final

FILL: Final = """
for folder in ('/programs', '.'):
    for number in range(40):
        try:
            with open(f'{folder}/full-{number}', 'wb') as file:
                for _ in range(60): file.write(b'x' * (1 << 20))
        except OSError:
            pass
"""
HOSTILE: Final = {
    "floods its output": "while True: print('a' * 65536, flush=True)",
    "floods its errors": "import os\nwhile True: os.write(2, b'a' * 65536)",
    "forks without end": "import os\nwhile True: os.fork()",
    "starts threads without end": (
        "import threading, time\nwhile True: threading.Thread(target=lambda: time.sleep(99), daemon=True).start()"
    ),
    "closes its output": "import os\nos.close(1)\nos.close(2)\nprint(1)",
    "sleeps for ever": "import time\ntime.sleep(10 ** 6)",
    "sleeps between its words": "import os, time\nwhile True:\n    time.sleep(0.03)\n    os.write(2, b'.')",
    "waits with many threads": (
        "import threading, time\n"
        "def wait():\n    while True: time.sleep(0.02)\n"
        "for _ in range(20): threading.Thread(target=wait).start()"
    ),
    "ignores what would end it": (
        "import signal, time\n"
        "for number in (1, 2, 15, 24): signal.signal(number, signal.SIG_IGN)\n"
        "while True: time.sleep(1)"
    ),
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "makes way for all others": (
        "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    ),
    "ends its parent": "import os\nos.kill(os.getppid(), 9)",
    "ends the first process": "import os, resource\nresource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
    "fills what it may write to": FILL,
    "takes all memory": "held = []\nwhile True: held.append(bytearray(1 << 20))",
    "recurses without end": "def f(): f()\nf()",
    "prints half a pair": "print('\\ud800')",
    "prints what is not text": "import sys\nsys.stdout.buffer.write(bytes(range(256)))",
    "raises what is not text": "raise ValueError('\\ud800\\udcff')",
    "says that a package is missing": "raise ModuleNotFoundError(\"No module named 'numpy'\")",
    "computes an endless number": "9 ** 9 ** 9 ** 9",
    "leaves without a word": "import os\nos._exit(0)",
}
