"""The token of those who call a stack from outside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gym import labels
from gym.errors import UserError


def read_token(token_file: Path | None, environ: Mapping[str, str] = os.environ) -> str:
    """The bearer token for callers from outside; never an option's value, which every process list shows."""
    if token_file is None:
        return environ.get(labels.ENV_TOKEN, "").strip()
    try:
        token = token_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {token_file}: {getattr(error, 'strerror', None) or error}") from error
    if not token:
        raise UserError(f"--token-file {token_file} is empty.", f"Make one: openssl rand -hex 32 > {token_file}")
    return token
