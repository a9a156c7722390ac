"""A model registry on this machine, like MLflow's or like GitLab's: `with registry_server() as registry: ...`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.ranged import Faults, Handler, serving

TOKEN = "glpat-local0123456789abcdef"
_PROJECT = "/api/v4/projects/7/ml/mlflow"
_API = "/api/2.0/mlflow"
_FILES = "/api/2.0/mlflow-artifacts/artifacts/"


@dataclass
class Registry:
    """Models with versions; files and tags by run."""

    gitlab: bool = False
    ranges: bool = True  # MLflow's own server sends whole files alone
    port: int = 0
    token: str = ""
    faults: Faults = field(default_factory=Faults)
    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)  # id -> tags
    files: dict[str, bytes] = field(default_factory=dict)  # RUN/artifacts/FILE -> content

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}" + (_PROJECT if self.gitlab else "")

    def new_run(self) -> str:
        run_id = f"run{len(self.runs)}"
        self.runs[run_id] = {}
        return run_id

    def run(self, run_id: str) -> dict[str, Any]:
        where = f"{self.url}{_FILES}0/{run_id}/artifacts" if self.gitlab else f"mlflow-artifacts:/0/{run_id}/artifacts"
        tags = [{"key": key, "value": value} for key, value in self.runs[run_id].items()]
        return {"info": {"run_id": run_id, "artifact_uri": where}, "data": {"tags": tags}}


@contextmanager
def registry_server(*, gitlab: bool = False, token: str = "") -> Iterator[Registry]:
    registry = Registry(gitlab=gitlab, token=token)

    class Bound(_Registry):
        faults = registry.faults

    Bound.registry = registry
    with serving(Bound) as port:
        registry.port = port
        yield registry


class _Registry(Handler):
    registry: ClassVar[Registry]

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        body = self.body()
        parts = urlsplit(self.path)
        path = unquote(parts.path).removeprefix(_PROJECT if self.registry.gitlab else "")
        if self.registry.token and self.headers.get("Authorization") != f"Bearer {self.registry.token}":
            self.send_json({"message": "401 Unauthorized"}, 401)
        elif path.startswith(_FILES):
            self._file(path.removeprefix(_FILES).removeprefix("0/"), body)
        else:
            query = {key: value[-1] for key, value in parse_qs(parts.query).items()}
            asked = {**query, **(json.loads(body) if body else {})}
            what = path.removeprefix(f"{_API}/")
            known = getattr(self, "_" + what.replace("/", "_").replace("-", "_"), None)
            if known is None or (self.registry.gitlab and what in ("model-versions/search", "model-versions/delete")):
                self.send_json({"message": "404 Not Found"}, 404)
            else:
                known(asked)

    def _missing(self, what: str) -> None:
        self.send_json({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"{what} not found"}, 404)

    def _file(self, path: str, body: bytes) -> None:
        if self.command == "PUT":
            self.registry.files[path] = body
            self.send_json({})
        elif path not in self.registry.files:
            self._missing(path)
        elif self.command == "DELETE":
            del self.registry.files[path]
            self.send_json({})
        else:
            self.send_range(self.registry.files[path], {}, ranges=self.registry.ranges)

    def _registered_models_create(self, asked: dict[str, Any]) -> None:
        if asked["name"] in self.registry.models:
            self.send_json({"error_code": "RESOURCE_ALREADY_EXISTS", "message": "it exists"}, 400)
            return
        self.registry.models[asked["name"]] = []
        self.send_json({"registered_model": {"name": asked["name"]}})

    def _registered_models_get(self, asked: dict[str, Any]) -> None:
        if asked["name"] not in self.registry.models:
            self._missing(asked["name"])
        else:
            self.send_json({"registered_model": {"name": asked["name"]}})

    def _registered_models_search(self, asked: dict[str, Any]) -> None:
        """One a page, so that paging is walked."""
        names = sorted(self.registry.models)
        begin = int(asked.get("page_token") or 0)
        more = {"next_page_token": str(begin + 1)} if begin + 1 < len(names) else {}
        self.send_json({"registered_models": [{"name": name} for name in names[begin : begin + 1]], **more})

    def _registered_models_get_latest_versions(self, asked: dict[str, Any]) -> None:
        self.send_json({"model_versions": self.registry.models.get(asked["name"], [])[-1:]})

    def _registered_models_delete(self, asked: dict[str, Any]) -> None:
        if self.registry.models.pop(asked["name"], None) is None:
            self._missing(asked["name"])
        else:
            self.send_json({})

    def _model_versions_create(self, asked: dict[str, Any]) -> None:
        versions = self.registry.models[asked["name"]]
        tags = {one["key"]: one["value"] for one in asked["tags"]}
        number = tags["gitlab.version"] if self.registry.gitlab else str(len(versions) + 1)
        run_id = self.registry.new_run() if self.registry.gitlab else asked["run_id"]
        versions.append({"name": asked["name"], "version": number, "run_id": run_id, "tags": asked["tags"]})
        self.send_json({"model_version": versions[-1]})

    def _model_versions_search(self, asked: dict[str, Any]) -> None:
        name = asked["filter"].removeprefix("name='").removesuffix("'")
        self.send_json({"model_versions": self.registry.models.get(name, [])})

    def _model_versions_get(self, asked: dict[str, Any]) -> None:
        versions = self.registry.models.get(asked["name"], [])
        found = next((one for one in versions if one["version"] == asked["version"]), None)
        if found is None:
            self._missing(asked["version"])
        else:
            self.send_json({"model_version": found})

    def _model_versions_delete(self, asked: dict[str, Any]) -> None:
        versions = self.registry.models[asked["name"]]
        versions[:] = [one for one in versions if one["version"] != asked["version"]]
        self.send_json({})

    def _runs_create(self, asked: dict[str, Any]) -> None:
        self.send_json({"run": self.registry.run(self.registry.new_run())})

    def _runs_get(self, asked: dict[str, Any]) -> None:
        self.send_json({"run": self.registry.run(asked["run_id"])})

    def _runs_set_tag(self, asked: dict[str, Any]) -> None:
        self.registry.runs[asked["run_id"]][asked["key"]] = asked["value"]
        self.send_json({})

    def _artifacts_list(self, asked: dict[str, Any]) -> None:
        begin = f"{asked['run_id']}/artifacts/"
        found = [(path, data) for path, data in self.registry.files.items() if path.startswith(begin)]
        shown = [{"path": path.removeprefix(begin), "is_dir": False, "file_size": len(data)} for path, data in found]
        self.send_json({"files": shown})
