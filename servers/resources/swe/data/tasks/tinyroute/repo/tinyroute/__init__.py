from tinyroute.patterns import BadPattern, Pattern
from tinyroute.router import Match, NotFound, Router

__all__ = ["BadPattern", "Match", "NotFound", "Pattern", "Router"]
