"""The Docs section. What it says of a stack it takes from /servers, which is there where a stack is."""

from __future__ import annotations

from typing import Final

from gym.console.pages.shell import Section

GUIDE: Final = Section("docs", "Docs", "gym.console.guide")
