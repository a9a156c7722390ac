"""`gym chaos`: breaks the parts of a stack while it collects, and compares with a collection that nothing disturbed."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.chaos.chaos_report import ChaosReport
    from gym.chaos.chaos_run import run_chaos
    from gym.chaos.chaos_setup import ChaosSetup, Happening

__all__ = ["ChaosReport", "ChaosSetup", "Happening", "run_chaos"]

__getattr__ = on_first_use(__name__)
