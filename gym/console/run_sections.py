"""The sections over collected rollouts and environments, which a stack's console and `gym view` both show."""

from __future__ import annotations

import os
from pathlib import Path

from gym.config.assets import search_roots
from gym.console.compare import compare_section
from gym.console.environments import environments_section
from gym.console.environments.env_catalog import EnvCatalog
from gym.console.guide.guide_section import GUIDE
from gym.console.pages.shell import Section
from gym.console.runs import runs_section
from gym.console.runs.run_board import Progress
from gym.console.viewer import app as rollouts_section
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles


def make_run_sections(
    runs: RunFiles | None, progress: Progress = lambda: (), environments: Section | None = None
) -> tuple[Section, ...]:
    """In the order of the menu. All of them read the same index. `progress`: of collections that run now."""
    over_runs = _over_runs(runs, progress) if runs else ()
    return (*over_runs, environments or environments_section.make_section(find_environments()), GUIDE)


def find_environments(copies: Path | None = None) -> EnvCatalog:
    """Those of this folder, of GYM_PATH, and those that came with the package; or copies of what they show."""
    return EnvCatalog(() if copies else search_roots(Path.cwd(), os.environ), copies)


def _over_runs(runs: RunFiles, progress: Progress) -> tuple[Section, ...]:
    return (
        runs_section.make_section(runs, progress),
        rollouts_section.make_section(RolloutFiles(runs)),
        compare_section.make_section(runs),
    )
