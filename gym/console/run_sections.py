"""The sections that show runs: of a results folder, or of the files that `gym view` was given."""

from __future__ import annotations

from gym.console.compare import compare_section
from gym.console.pages.shell import Section
from gym.console.runs import runs_section
from gym.console.runs.run_board import Progress
from gym.console.viewer import app as rollouts_section
from gym.console.viewer.rollout_files import RolloutFiles


def make_run_sections(files: RolloutFiles, progress: Progress = lambda: ()) -> tuple[Section, Section, Section]:
    return (
        rollouts_section.make_section(files),
        runs_section.make_section(files.runs, progress),
        compare_section.make_section(files.runs),
    )
