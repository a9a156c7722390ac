"""Which stack, and how: from the environment first, then from `compose_gym` in the trainer's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from nemo_gym.nemo_failures import StackError
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME

BLOCK: Final = "compose_gym"
PREFIX: Final = "COMPOSE_GYM_"
POLICIES: Final = ("push", "rows", "keep")
ANY_HOST: Final = ("", "0.0.0.0", "::")  # where a trainer would have a head server listen: nothing to call


@dataclass(frozen=True)
class NemoOptions:
    """What a user may say: `compose_gym: {url: ...}`, or `COMPOSE_GYM_URL`."""

    url: str = ""
    policy: str = "push"  # tell the model; or send it with the rows; or keep what the stack is configured with
    model: str = "policy_model"
    timeout: float = 3600.0  # seconds for one attempt
    max_attempts: int = 3
    max_wait: float = 600.0  # seconds without a stack that answers


@dataclass(frozen=True)
class PolicyUrls:
    urls: tuple[str, ...] = ()
    api_key: str = field(default="", repr=False)
    model_name: str = ""


@dataclass(frozen=True)
class NemoSettings:
    options: NemoOptions
    policy: PolicyUrls
    token: str = field(default="", repr=False)
    max_connections: int = 1024

    @property
    def url(self) -> str:
        return self.options.url


def read_settings(config: Mapping[str, Any], environ: Mapping[str, str]) -> NemoSettings:
    options = _read_options(dict(config.get(BLOCK) or {}), environ)
    if not options.url:
        options = NemoOptions(**{**vars(options), "url": _head_url(config)})
    if not options.url.startswith(("http://", "https://")):
        raise StackError(f"{options.url!r} is not the address of a stack: write {PREFIX}URL=http://HOST:11000")
    return NemoSettings(
        options=NemoOptions(**{**vars(options), "url": options.url.rstrip("/")}),
        policy=_read_policy(config),
        token=_read_token(environ),
        max_connections=int(config.get("global_aiohttp_connector_limit_per_host") or NemoSettings.max_connections),
    )


def _read_options(block: dict[str, Any], environ: Mapping[str, str]) -> NemoOptions:
    known = {one.name: type(getattr(NemoOptions, one.name)) for one in fields(NemoOptions)}
    if unknown := sorted(block.keys() - known):
        raise StackError(f"{BLOCK} has no option {unknown[0]!r}: there are {', '.join(known)}")
    given = {**block, **{name: value for name in known if (value := environ.get(PREFIX + name.upper()))}}
    try:
        options = NemoOptions(**{name: known[name](value) for name, value in given.items()})
    except (TypeError, ValueError) as error:
        raise StackError(f"{BLOCK} (or {PREFIX}...) holds what is not a number: {error}") from None
    if options.policy not in POLICIES:
        raise StackError(f"{BLOCK}.policy is {options.policy!r}: it is one of {', '.join(POLICIES)}")
    return options


def _head_url(config: Mapping[str, Any]) -> str:
    head = config.get(HEAD_SERVER_KEY_NAME) or {}
    host = str(head.get("host") or "")
    if host in ANY_HOST:
        what = (
            f"nothing says where the stack is: set {PREFIX}URL=http://HOST:11000, or {BLOCK}.url in the configuration"
        )
        raise StackError(f"{what}; `gym ps` shows the address, `gym up` starts one")
    return f"http://{host}:{head.get('port') or 11000}"


def _read_policy(config: Mapping[str, Any]) -> PolicyUrls:
    given = config.get("policy_base_url") or ()
    urls = (given,) if isinstance(given, str) else tuple(str(one) for one in given if one)
    key, name = config.get("policy_api_key"), config.get("policy_model_name")
    return PolicyUrls(urls, str(key or ""), str(name or ""))


def _read_token(environ: Mapping[str, str]) -> str:
    if token := environ.get("GYM_TOKEN", ""):
        return token
    path = environ.get("GYM_TOKEN_FILE", "")
    try:
        return Path(path).read_text("utf-8").strip() if path else ""
    except OSError as error:
        raise StackError(f"GYM_TOKEN_FILE={path} cannot be read: {error.strerror}") from None
