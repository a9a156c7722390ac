"""A certificate for the router that no caller ever sees: none of its entry points speaks TLS.

Without one Traefik makes an RSA key of its own at its start and again whenever it reads its files: 0.05 to 0.3 s of CPU
each time. So this key is not a secret, and nothing may rely on it.
"""

from __future__ import annotations

from typing import Final

from gym.render.yaml_text import to_yaml

FILE: Final = "unused-certificate.yml"  # beside the router's dynamic file

_KEY: Final = "MC4CAQAwBQYDK2VwBCIEIFFbFR3oYywrkmYb5+PSFkaOGdzvOfLuGp65o6FbjHZr"
_CERTIFICATE: Final = (
    "MIIBQTCB9KADAgECAgEBMAUGAytlcDAfMR0wGwYDVQQDDBRub2JvZHkgYXNrcyBm",
    "b3IgdGhpczAgFw0yNjExMjQwMzM5MTlaGA8yMTI2MTAzMTAzMzkxOVowHzEdMBsG",
    "A1UEAwwUbm9ib2R5IGFza3MgZm9yIHRoaXMwKjAFBgMrZXADIQBI3hPbXNpS7DUO",
    "j7axH/Nb/vB024B3l07QYnkFu9jbOKNTMFEwHQYDVR0OBBYEFJA/0S+0wWSRagSC",
    "URbtoZn16g1DMB8GA1UdIwQYMBaAFJA/0S+0wWSRagSCURbtoZn16g1DMA8GA1Ud",
    "EwEB/wQFMAMBAf8wBQYDK2VwA0EA5YrdFr30JX20+JiSCoHk+rIs6UcdYVOxYZ3J",
    "xdnis7ZBDyw5ZNdJmYwyGUAV5/NQWopBLalh/cnxycQlySXgDA==",
)


def unused_certificate() -> str:
    """Traefik takes the texts themselves where it asks for files."""
    certificate = {"certFile": _pem("CERTIFICATE", *_CERTIFICATE), "keyFile": _pem("PRIVATE KEY", _KEY)}
    tree = {"tls": {"stores": {"default": {"defaultCertificate": certificate}}}}
    return to_yaml(tree, "No entry point speaks TLS: this key is public, and never used. Written by gym, do not edit.")


def _pem(what: str, *lines: str) -> str:
    return "\n".join((f"-----BEGIN {what}-----", *lines, f"-----END {what}-----", ""))
