"""Addresses of servers that somebody writes into a document or a setting."""

from __future__ import annotations

from urllib.parse import urlsplit

_NO_URL = "is not http[s]://HOST[:PORT][/PATH]"
# RFC 1035, 2.3.4.
_HOST_MAX_CHARS = 253


def objection_to_url(url: str) -> str:
    """
    Why nobody can be asked under *url*, ``""`` if somebody can: it is not
    `http[s]://HOST[:PORT][/PATH]`, or holds credentials. Never shows *url*.
    """
    try:
        parsed = urlsplit(url)
        # Reading the port checks it.
        usable = parsed.scheme in ("http", "https") and parsed.hostname and parsed.port != 0
    except ValueError:
        return _NO_URL
    if not usable:
        return _NO_URL
    if parsed.username is not None or parsed.password is not None:
        return "holds credentials; these are settings of their own"
    if parsed.query or parsed.fragment:
        return _NO_URL
    if not _is_host(parsed.hostname or ""):
        return "names a host that there can't be"
    return ""


def _is_host(host: str) -> bool:
    """
    Whether *host* can be looked up: `socket` and HTTP libraries raise a UnicodeError for one that
    IDNA refuses, such as one with an empty label or one of more than 63 characters.
    """
    if ":" in host:
        return True  # an IPv6 address; `urlsplit` has read it
    try:
        name = host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return len(name.rstrip(".")) <= _HOST_MAX_CHARS and name.isprintable() and " " not in name
