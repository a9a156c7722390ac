"""Which values are secret, and a tree without them. In doubt a value is masked: a mask costs a look, a leak a key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gym.config.nodes import words
from gym.labels import REDACTED

if TYPE_CHECKING:
    from gym.config.model import StackConfig

_ALWAYS = frozenset(
    words("secret secrets password passwords passwd pwd passphrase credential credentials authorization bearer cookie")
)
_GLUED = re.compile(r"(api|access|secret|private|auth|signing|encryption)_?(key|token)s?$")
_PLURALS = frozenset(words("api access secret private auth signing encryption bearer refresh hf wandb openai policy"))
_PUBLIC_KEYS = frozenset(words("sort primary foreign public answer metric group cache idempotency"))
_TEXT_TOKENS = frozenset(
    words(
        "eos bos pad unk sep cls mask stop special start end begin think image audio video per max min num next last "
        "first prompt completion input output total cached"
    )
)
_PLACEHOLDERS = frozenset(["", "???"])
_REFERENCE = re.compile(r"\$\{[^{},]+\}")
_USERINFO = re.compile(r"(?<=://)[^/\s?#@]+@(?=[^\s])")
_PARAMETER = re.compile(r"(?P<lead>[?&;])(?P<name>[^=&;#?\s]+)=(?P<value>[^&;#\s]+)")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{6,}")
# What well-known providers' keys look like, for those that stand under an innocent name.
_SHAPED = re.compile(
    r"\b(?:(?:sk|rk|pk)-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_SHORTEST = 8  # shorter secrets ("EMPTY", "dummy") are words that stand elsewhere by right


def is_secret_key(key: str) -> bool:
    """Decided by words: `openai_api_key`, `hf_token` and `dbPassword` are, `max_tokens` and `key_metrics` are not."""
    parts = _key_words(key)
    if any(_says_secret(word) for word in parts) or _GLUED.search("_".join(parts)):
        return True
    if not parts:
        return False
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last == "auth":
        return True
    if last == "key":
        return before not in _PUBLIC_KEYS
    if last == "token":
        return before not in _TEXT_TOKENS
    return last in ("keys", "tokens") and before in _PLURALS


def _says_secret(word: str) -> bool:
    """`PGPASSWORD` and `appsecret` are one word, and say it all the same."""
    return word in _ALWAYS or _GLUED.fullmatch(word) is not None or word.endswith(("password", "passwd", "secret"))


def redact(tree: Any) -> Any:
    """The same tree with every secret masked: by key, inside URLs, and wherever else a secret's text stands."""
    known = {value for _, value, by_key in _secrets(tree, "", False) if by_key and len(value) >= _SHORTEST}
    known |= {quote(value, safe="") for value in known}
    return _masked(tree, False, sorted(known, key=len, reverse=True))


def redact_text(text: str) -> str:
    """Credentials inside one string: a URL's user and password, secret parameters, bearer tokens, providers' keys."""
    text = _USERINFO.sub(f"{REDACTED}@", text)
    text = _PARAMETER.sub(_mask_parameter, text)
    return _SHAPED.sub(REDACTED, _BEARER.sub(rf"\1 {REDACTED}", text))


def collect_secrets(stack: StackConfig) -> dict[str, str]:
    """Dotted path -> value of every secret: `policy_model.openai_api_key`, `policy_model.env.HF_TOKEN`, `hf_token`."""
    found: dict[str, str] = {}
    for instance in stack.instances:
        found |= _by_path(instance.fields, instance.name)
        found |= _by_path(instance.container.env, f"{instance.name}.env")
        for one in instance.sidecars:
            found |= _by_path(one.env, f"{instance.name}.services.{one.name}.env")
    return found | _by_path(stack.settings, "")


def _by_path(tree: Any, path: str) -> dict[str, str]:
    return {where: value for where, value, _ in _secrets(tree, path, False)}


def _key_words(key: str) -> list[str]:
    parted = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3_\2\4", key)
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]


def _secrets(tree: Any, path: str, secret: bool) -> Iterator[tuple[str, str, bool]]:
    """Path and value of each, and whether its key says so (else it is a text with credentials in it)."""
    for key, value, hidden in _entries(tree, secret):
        below = f"{path}.{key}" if path else str(key)
        if isinstance(value, str):
            if (hidden and _is_value(value)) or redact_text(value) != value:
                yield below, value, hidden
        elif hidden and _is_secret_number(value, str(key)):
            yield below, str(value), True
        else:
            yield from _secrets(value, below, hidden)


def _entries(tree: Any, secret: bool) -> Iterator[tuple[Any, Any, bool]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield key, value, secret or is_secret_key(str(key))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield index, value, secret


def _masked(tree: Any, secret: bool, known: list[str]) -> Any:
    if isinstance(tree, Mapping):
        return {key: _masked_entry(key, value, hidden, known) for key, value, hidden in _entries(tree, secret)}
    if isinstance(tree, (list, tuple)):
        return [_masked(value, secret, known) for value in tree]
    if not isinstance(tree, str):
        return tree
    if secret and _is_value(tree):
        return REDACTED
    for value in known:
        tree = tree.replace(value, REDACTED)
    return redact_text(tree)


def _masked_entry(key: Any, value: Any, hidden: bool, known: list[str]) -> Any:
    return REDACTED if hidden and _is_secret_number(value, str(key)) else _masked(value, hidden, known)


def _is_value(text: str) -> bool:
    """A text that says something itself: not empty, not `???`, not a pure `${reference}`."""
    return text not in _PLACEHOLDERS and not _REFERENCE.fullmatch(text)


def _is_secret_number(value: Any, key: str) -> bool:
    """A password may be written as digits; the number beside `token` or `key` is a count."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and any(w in _ALWAYS for w in _key_words(key))
    )


def _mask_parameter(found: re.Match[str]) -> str:
    name = found["name"]
    hidden = is_secret_key(name) or name.lower() in ("sig", "signature", "key", "token", "auth")
    return f"{found['lead']}{name}={REDACTED}" if hidden else found[0]
