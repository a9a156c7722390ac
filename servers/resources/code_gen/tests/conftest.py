"""The server's own modules are importable, as when it is started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
