"""NeMo Gym's commands about registries, as `gym data upload`, `download` and `rm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from gym.cli.ng_words import read_words
from gym.errors import UserError

_MLFLOW: Final = ("mlflow_tracking_uri", "mlflow_tracking_token")
_HUB: Final = ("hf_token", "hf_organization", "hf_collection_name", "hf_collection_slug", "hf_dataset_prefix")
_UPLOAD: Final = (
    *("dataset_name", "input_jsonl_fpath", "resource_config_path", "split", "create_pr", "revision"),
    *("commit_message", "commit_description", "delete_from_gitlab"),
)


def upload_to_gitlab(words: Sequence[str]) -> list[str]:
    needed = ("dataset_name", "version", "input_jsonl_fpath")
    asked = read_words("ng_upload_dataset_to_gitlab", words, (*needed, *_MLFLOW), needed=needed)
    return ["data", "upload", str(asked["input_jsonl_fpath"]), _entry(asked), *_settings(asked, _MLFLOW)]


def download_from_gitlab(words: Sequence[str]) -> list[str]:
    needed = ("dataset_name", "version", "artifact_fpath", "output_fpath")
    asked = read_words("ng_download_dataset_from_gitlab", words, (*needed, *_MLFLOW), needed=needed)
    where = [str(asked["artifact_fpath"]), "-o", str(asked["output_fpath"])]
    return ["data", "download", _entry(asked), *where, *_settings(asked, _MLFLOW)]


def remove_from_gitlab(words: Sequence[str]) -> list[str]:
    asked = read_words(
        "ng_delete_dataset_from_gitlab", words, ("dataset_name", "version", *_MLFLOW), needed=("dataset_name",)
    )
    return ["data", "rm", _entry(asked), *_settings(asked, _MLFLOW)]


def upload_to_hub(words: Sequence[str]) -> list[str]:
    return _upload("ng_upload_dataset_to_hf", words, moves=False)


def move_to_hub(words: Sequence[str]) -> list[str]:
    """Always deletes from GitLab, as its name says."""
    return _upload("ng_gitlab_to_hf_dataset", words, moves=True)


def download_from_hub(words: Sequence[str]) -> list[str]:
    name = "ng_download_dataset_from_hf"
    known = ("repo_id", "artifact_fpath", "split", "output_dirpath", "output_fpath", "revision", *_HUB)
    asked = read_words(name, words, known, needed=("repo_id",))
    for one, other in (("artifact_fpath", "split"), ("output_dirpath", "output_fpath")):
        if bool(asked.get(one)) == bool(asked.get(other)):
            raise UserError(f"{name} needs {one} or {other}, one of them.", f"{name} +{one}=...")
    revision = f"@{asked['revision']}" if asked.get("revision") else ""
    file = [str(asked["artifact_fpath"])] if asked.get("artifact_fpath") else ["--split", str(asked["split"])]
    where = str(asked.get("output_fpath") or f"{str(asked['output_dirpath']).rstrip('/')}/")
    return ["data", "download", f"hf:{asked['repo_id']}{revision}", *file, "-o", where, *_settings(asked, _HUB)]


def _upload(command: str, words: Sequence[str], *, moves: bool) -> list[str]:
    needed = ("input_jsonl_fpath", "resource_config_path", *(("dataset_name",) if moves else ()))
    asked = read_words(command, words, (*_UPLOAD, *_HUB, *_MLFLOW), needed=needed)
    argv = ["data", "upload", str(asked["input_jsonl_fpath"]), "--for", _server_of(str(asked["resource_config_path"]))]
    pairs = (("dataset_name", "--name"), ("split", "--split"), ("commit_message", "-m"))
    for key, option in (*pairs, ("commit_description", "--description"), ("revision", "--revision")):
        argv += [option, str(asked[key])] if asked.get(key) else []
    argv += ["--pr"] if asked.get("create_pr") else []
    if moves or asked.get("delete_from_gitlab"):
        name = asked.get("dataset_name") or _server_of(str(asked["resource_config_path"]))
        argv += ["--then-remove", f"gitlab:{name}"]
    return [*argv, *_settings(asked, (*_HUB, *_MLFLOW))]


def _server_of(path: str) -> str:
    """`resources_servers/mcqa/configs/other.yaml` is about mcqa."""
    parts = PurePosixPath(path).parts
    return parts[-3] if len(parts) >= 3 and parts[-2] == "configs" else PurePosixPath(path).stem


def _entry(asked: Mapping[str, Any]) -> str:
    version = asked.get("version")
    return f"gitlab:{asked['dataset_name']}" + (f":{version}" if version else "")


def _settings(asked: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    return [part for key in keys if asked.get(key) is not None for part in ("--set", f"{key}={asked[key]}")]


COMMANDS: Final[dict[str, Callable[[Sequence[str]], list[str]]]] = {
    "ng_upload_dataset_to_gitlab": upload_to_gitlab,
    "ng_download_dataset_from_gitlab": download_from_gitlab,
    "ng_delete_dataset_from_gitlab": remove_from_gitlab,
    "ng_upload_dataset_to_hf": upload_to_hub,
    "ng_download_dataset_from_hf": download_from_hub,
    "ng_gitlab_to_hf_dataset": move_to_hub,
}
