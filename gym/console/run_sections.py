"""The sections over collected rollouts, which a stack's console and `gym view` both show."""

from __future__ import annotations

from gym.console.guide.guide_section import GUIDE
from gym.console.pages.shell import Section
from gym.console.viewer.app import make_section
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles


def make_run_sections(runs: RunFiles) -> tuple[Section, ...]:
    """In the order of the menu. All of them read the same index."""
    return (make_section(RolloutFiles(runs)), GUIDE)
