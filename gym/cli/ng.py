"""NeMo Gym's commands, as its documentation writes them: each is one of ours with the words turned round.

`ng_run "+config_paths=[...]" +policy_model.x=1` is `gym up ... --attach`. docs/nemo-gym.md has the table.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gym.cli import ng_registries
from gym.cli.boundary import exit_code
from gym.cli.main import run
from gym.cli.ng_words import read_words as _read
from gym.errors import UserError

Command = Callable[[Sequence[str]], list[str]]
HELP: Final = frozenset({"-h", "--help", "+h=true", "+help=true"})
HEAD: Final = (("host", "--bind"), ("port", "--port"))  # of the head server, which is the router here
NO_LIMIT: Final = 10_000  # `num_samples_in_parallel=null`: as many as `gym rollouts` takes


def up(words: Sequence[str]) -> list[str]:
    heads = [word for word in words if re.match(r"\+*head_server\.", word)]
    head = _read("ng_run", heads, ("head_server",)).get("head_server", {})
    where = [part for key, option in HEAD if key in head for part in (option, str(head[key]))]
    return ["up", *(word for word in words if word not in heads), *where, "--attach"]


def config(words: Sequence[str]) -> list[str]:
    return ["config", *words]


def status(words: Sequence[str]) -> list[str]:
    _read("ng_status", words, ())
    return ["ps"]


def collect(words: Sequence[str]) -> list[str]:
    known = (
        *("agent_name", "input_jsonl_fpath", "output_jsonl_fpath", "limit", "num_repeats", "num_samples_in_parallel"),
        *("responses_create_params", "resume_from_cache", "head_server"),
    )
    asked = _read("ng_collect_rollouts", words, known, needed=("input_jsonl_fpath", "output_jsonl_fpath"))
    argv = ["rollouts", str(asked["input_jsonl_fpath"]), "-o", str(asked["output_jsonl_fpath"])]
    if agent := asked.get("agent_name"):
        argv += ["--agent", str(agent)]
    if limit := asked.get("limit"):  # 0 and null: all of them
        argv += ["--limit", str(limit)]
    argv += ["--repeats", str(asked.get("num_repeats") or 1)]
    argv += ["--concurrency", str(asked.get("num_samples_in_parallel") or NO_LIMIT)]
    if params := asked.get("responses_create_params"):
        argv += ["--params", json.dumps(params)]
    if asked.get("resume_from_cache") is False:
        argv.append("--fresh")
    if head := asked.get("head_server"):
        argv += ["--url", f"http://{head.get('host', '127.0.0.1')}:{head.get('port', 11000)}"]
    return argv


def test(words: Sequence[str]) -> list[str]:
    asked = _read("ng_test", words, ("entrypoint", "should_validate_data"), needed=("entrypoint",))
    return ["test", _server_name(asked["entrypoint"])]


def test_all(words: Sequence[str]) -> list[str]:
    _read("ng_test_all", words, ("fail_on_total_and_test_mismatch",))
    return ["test", "--all"]


def init(words: Sequence[str]) -> list[str]:
    asked = _read("ng_init_resources_server", words, ("entrypoint",), needed=("entrypoint",))
    folder = PurePosixPath(str(asked["entrypoint"])).parent
    # Where the tutorials look for it afterwards; in a checkout of ours, among its servers.
    there = ["--to", str(folder)] if folder.name and not Path("servers").is_dir() else []
    return ["new", "resources", _server_name(asked["entrypoint"]), *there]


def viewer(words: Sequence[str]) -> list[str]:
    asked = _read("ng_viewer", words, ("jsonl_fpath", "server_host", "server_port"), needed=("jsonl_fpath",))
    if asked.get("server_host", "127.0.0.1") not in ("127.0.0.1", "localhost"):
        raise UserError("Pages with rollouts are served to this machine alone.", "Leave server_host out.")
    return ["view", str(asked["jsonl_fpath"]), "--port", str(asked.get("server_port", 7860))]


def materialize(words: Sequence[str]) -> list[str]:
    needed = ("input_jsonl_fpath", "prompt_config", "output_jsonl_fpath")
    asked = _read("ng_materialize_prompts", words, needed, needed=needed)
    source, prompt, output = (str(asked[name]) for name in needed)
    return ["data", "render", source, "--prompt", prompt, "-o", output]


def version(words: Sequence[str]) -> list[str]:
    asked = _read("ng_version", words, ("json",))
    return ["version", *(["--json"] if asked.get("json") else [])]


def help_(words: Sequence[str]) -> list[str]:
    return ["--help"]


def prepare(words: Sequence[str]) -> list[str]:
    """Every other word is a setting of the configuration, as `config_paths` is."""
    known = ("output_dirpath", "mode", "should_download", "data_source", "overwrite_metrics_conflicts")
    own = [word for word in words if word.lstrip("+").partition("=")[0] in known]
    asked = _read("ng_prepare_data", own, known, needed=("output_dirpath", "mode"))
    argv = ["data", "prepare", *(word for word in words if word not in own)]
    argv += ["-o", str(asked["output_dirpath"]), "--mode", str(asked["mode"])]
    if asked.get("should_download"):
        argv.append("--download")
    if source := asked.get("data_source"):
        argv += ["--source", str(source)]
    if asked.get("overwrite_metrics_conflicts"):
        argv.append("--overwrite-metrics-conflicts")
    return argv


COMMANDS: Final[dict[str, Command]] = {
    "ng_run": up,
    "ng_status": status,
    "ng_dump_config": config,
    "ng_collect_rollouts": collect,
    "ng_test": test,
    "ng_test_all": test_all,
    "ng_init_resources_server": init,
    "ng_viewer": viewer,
    "ng_materialize_prompts": materialize,
    "ng_version": version,
    "ng_help": help_,
    "ng_prepare_data": prepare,
    **ng_registries.COMMANDS,
}


def main() -> int:
    """All of them are this one script, under the name that was typed."""
    name, words = PurePosixPath(sys.argv[0]).name, sys.argv[1:]
    argv: list[str] = []

    def translate() -> int:
        argv.extend(["--help"] if HELP & set(words) else COMMANDS[name](words))
        return 0

    return exit_code(translate) or run(argv)


def _server_name(entrypoint: Any) -> str:
    """`resources_servers/my_tool` is `my_tool`."""
    return PurePosixPath(str(entrypoint)).name


if __name__ == "__main__":
    raise SystemExit(main())
