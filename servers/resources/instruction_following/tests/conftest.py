"""The server's own modules are importable, as when it is started; so is what helps its tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
