"""Access to the server: requests that name this machine, with the token where one is needed."""

import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.errors import ConfigError

TOKEN_VARIABLE = "EVOKERNEL_SERVE_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]{16,200}")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Names by which a server may be addressed, and its token.

    A foreign page whose own name resolves to this machine (DNS rebinding) sends that name, and is refused.
    """

    names: frozenset[str]
    """Host names in lower case."""
    numbers: bool
    """True where any IP address is accepted; else only loopback. DNS cannot redirect an address."""
    token: str
    """Empty where none is asked for."""

    def addresses_us(self, hosts: list[str]) -> bool:
        """Say whether a request has exactly one Host header, and that names this server."""
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None:
            return False
        name = (found[1] or found[2]).lower().removesuffix(".")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not found[1] and name in self.names
        return self.numbers or address.is_loopback

    def admits(self, given: str | None) -> bool:
        """Say whether this is the token, by a comparison in constant time."""
        return not self.token or hmac.compare_digest(_bytes(given or ""), _bytes(self.token))


def access_for(
    host: str, address: str, *, environment: Mapping[str, str] = os.environ, variable: str = TOKEN_VARIABLE
) -> AccessPolicy:
    """Return the policy of a server for a host and the address that it resolves to.

    Beyond loopback a token is needed: that of the environment, or a random one. Raises `ConfigError` if the token of
    the environment is too short, or does not fit into a URL.
    """
    token = environment.get(variable, "")
    if token and not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{variable} must have 16 to 200 letters, digits or _ . ~ -; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe())"'
        )
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return AccessPolicy(frozenset({"localhost", host.lower()}), numbers=False, token=token)
    names = frozenset({"localhost", host.lower(), socket.gethostname().lower()})
    return AccessPolicy(names, numbers=True, token=token or secrets.token_urlsafe(24))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
