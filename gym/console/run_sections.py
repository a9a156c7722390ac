"""The sections over collected rollouts, which a stack's console and `gym view` both show."""

from __future__ import annotations

from gym.console.compare import compare_section
from gym.console.guide.guide_section import GUIDE
from gym.console.pages.shell import Section
from gym.console.runs import runs_section
from gym.console.runs.run_board import Progress
from gym.console.viewer import app as rollouts_section
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles


def make_run_sections(runs: RunFiles, progress: Progress = lambda: ()) -> tuple[Section, ...]:
    """In the order of the menu. All of them read the same index. `progress`: of collections that run now."""
    return (
        runs_section.make_section(runs, progress),
        rollouts_section.make_section(RolloutFiles(runs)),
        compare_section.make_section(runs),
        GUIDE,
    )
