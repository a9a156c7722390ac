"""Where the files of a Compose stack are below its home; some of them are read without the models of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym.files import read_object
from gym.wire.stack_names import ROUTES_FILE, SYNCED_FOLDER, TOKEN, project_name


@dataclass(frozen=True)
class StackFolder:
    home: Path

    @property
    def compose(self) -> Path:
        return self.home / "compose.yaml"

    @property
    def build(self) -> Path:
        return self.home / "build"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets"

    @property
    def discovery(self) -> Path:
        return self.home / "discovery" / "discovery.json"

    @property
    def traefik(self) -> Path:
        return self.home / "traefik"

    @property
    def routes(self) -> Path:
        return self.traefik / "dynamic" / ROUTES_FILE

    @property
    def notes(self) -> Path:
        return self.home / "notes"

    @property
    def catalog(self) -> Path:
        return self.home / "catalog"

    @property
    def wanted(self) -> Path:
        return self.home / "wanted"

    @property
    def synced(self) -> Path:
        return self.home / SYNCED_FOLDER

    @property
    def compose_lock(self) -> Path:
        return self.home / "compose.lock"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def state(self) -> Path:
        return self.home / "state.json"

    @property
    def older_plan(self) -> Path:
        """Of a stack that an earlier gym started."""
        return self.home / "plan.json"

    def read_token(self) -> str:
        path = self.secrets / TOKEN
        return path.read_text("utf-8") if path.is_file() else ""

    def saved_project(self) -> str:
        return read_object(self.state).get("project") or project_name(self.home.name, self.home)

    def saved_plan(self) -> dict[str, Any]:
        return read_object(self.state).get("plan") or read_object(self.older_plan)
