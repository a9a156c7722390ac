"""The variables of a server's container and the command that starts it: a secret is in them by its name alone. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.plan.model import Service
from gym.wire.stack_names import PORT, SANDBOX

SECRET: Final = "secret://"


def server_environment(service: Service) -> dict[str, str]:
    """A foreign image cannot put a secret into a variable: it gets the file's name, in the usual way."""
    if service.launch != "image":
        return _variables(service)
    files = {f"{key}_FILE": f"/run/secrets/{value[len(SECRET) :]}" for key, value in _secret_variables(service)}
    plain = {key: value for key, value in _variables(service).items() if not value.startswith(SECRET)}
    return plain | files


def server_command(service: Service) -> tuple[str, ...] | None:
    """The image's own, unless a secret has to be put into the environment first."""
    if service.launch != "sdk" or not _secret_variables(service):
        return None
    return ("gym-with-secrets", "python", "-m", "gym.server.serve", service.entrypoint)


def sandbox_secret(service: Service) -> str:
    """The name of the secret that holds this server's token for the broker."""
    return f"gym-sandbox-{service.slug}"


def _variables(service: Service) -> dict[str, str]:
    if service.sandbox is None:
        return service.container.env
    return {
        **service.container.env,
        labels.ENV_SANDBOX_URL: f"http://{SANDBOX}:{PORT}",
        labels.ENV_SANDBOX_TOKEN: f"{SECRET}{sandbox_secret(service)}",
    }


def _secret_variables(service: Service) -> list[tuple[str, str]]:
    return [(key, value) for key, value in _variables(service).items() if value.startswith(SECRET)]
