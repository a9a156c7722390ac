"""A collection's metrics and sample rollouts in a tracker of experiments: `gym rollouts --log-to`."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.collect.log_to.run_logs import RunLogs, check_loggers
    from gym.collect.log_to.trackers import NAMES

__all__ = ["NAMES", "RunLogs", "check_loggers"]

__getattr__ = on_first_use(__name__)
