"""An engine of its own, restarted under load: `unshare --net python -m tests.support.sandbox_engine FOLDER IMAGE`.

Collects while its sandboxes' engine goes away and comes back, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.airgap import Engine
from tests.support.sandbox_chaos import chaos

ROWS, RESTARTS = 40, 2


def main(folder: Path, image: Path) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    engine = Engine(folder)
    os.environ["DOCKER_HOST"] = engine.host
    try:
        engine.start()
        subprocess.run(["docker", "load", "--quiet", "--input", str(image)], check=True, stdout=subprocess.DEVNULL)
        with chaos(folder, ROWS) as stack:

            def restart() -> None:
                engine.stop()
                engine.start()

            seen = stack.fire(RESTARTS, ("engine",), restart)
            stack.down()
            report = {**vars(seen), "left": stack.labelled()}
        sys.stdout.write(json.dumps(report))
    finally:
        engine.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2])))
