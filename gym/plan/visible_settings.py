"""Which of a stack's settings a server may see: the plain ones, and a secret only where its own fields hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.config.plain_trees import texts_of
from gym.config.redaction import is_secret_key, redact
from gym.plan.model import Service

# Settings of commands and of the launcher: no server reads them, and a change of one must not replace every server.
NOT_FOR_SERVERS = frozenset(
    {
        "config_paths",
        "entrypoint",
        "default_host",
        "head_server",
        "disallowed_ports",
        "head_server_deps",
        "python_version",
        "pip_install_verbose",
        "uv_pip_set_python",
        "skip_venv_if_present",
        "port_range_low",
        "port_range_high",
        "dry_run",
        "model_endpoint_readiness_timeout_seconds",
        "uv_cache_dir",
        "uv_venv_dir",
        "nemo_gym_log_dir",
        "json",
        "query",
        "error_on_almost_servers",
        "input_jsonl_fpath",
        "output_jsonl_fpath",
        "agent_name",
        "limit",
        "num_repeats",
        "num_samples_in_parallel",
        "sandbox_provider",
        "strict",
        "share",
    }
)


# What model servers alone have to know, of the endpoints that rollouts bring along.
FOR_MODELS = ("policy_urls", "policy_host")
# What only servers of our SDK understand.
FOR_SDK = ("telemetry",)


def settings_for(settings: Mapping[str, Any], service: Service) -> dict[str, Any]:
    """Scalar settings of this server, and whole blocks for one written against nemo_gym, which looks them up by name.

    `secrets: [hf_token]` of an instance lets it see that one by name.
    """
    own = {text for _, text in texts_of(service.fields)}
    model = service.type == "responses_api_models" and service.launch == "sdk"
    asked = (*(FOR_MODELS if model else ()), *(FOR_SDK if service.launch == "sdk" else ()))
    own_settings = {key: settings[key] for key in asked if settings.get(key) is not None}
    return own_settings | {
        key: value
        for key, value in settings.items()
        if (_is_scalar(value) or service.launch == "script")
        and key not in NOT_FOR_SERVERS
        and key not in FOR_MODELS
        and key not in FOR_SDK
        and (not _needs_leave(key, value) or _is_in(value, own) or key in service.container.secrets)
    }


def _needs_leave(key: str, value: Any) -> bool:
    return key.startswith("policy_") or is_secret_key(key) or redact({key: value}) != {key: value}


def _is_in(value: Any, own: set[str]) -> bool:
    return isinstance(value, str) and value in own


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
