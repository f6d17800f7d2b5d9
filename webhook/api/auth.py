"""
Who calls the API, and may he: what the routes ask, and the answer from a file of tokens.

In a cluster the same questions go to the API server (`clients/access.py`).
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import hmac
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web
from aiohttp.hdrs import AUTHORIZATION

from webhook.errors import SettingsError, WebhookError
from webhook.model.access import Action, Caller

log = logging.getLogger("gatewright.api")

# Groups of the token file.
ADMINS = "gatewright:admins"
VIEWERS = "gatewright:viewers"

# A token of a ServiceAccount has about 1,000 characters.
_TOKEN_MAX_CHARS = 16 * 1024


class UnauthorizedError(WebhookError):
    """Nobody has shown who he is. *is_invalid*: there was a token, and it is no good."""

    def __init__(self, problem: str, *, is_invalid: bool = False) -> None:
        super().__init__(problem)
        self.is_invalid = is_invalid

    @property
    def challenge(self) -> str:
        """The header `WWW-Authenticate` (RFC 6750)."""
        return 'Bearer realm="gatewright"' + (', error="invalid_token"' if self.is_invalid else "")


class ForbiddenError(WebhookError):
    """The caller lacks the right."""

    def __init__(self, caller: Caller, action: Action) -> None:
        super().__init__(f"{caller.name} may not {action}")


class Authenticator(Protocol):
    """Tells whose a token is."""

    async def authenticate(self, token: str) -> Caller | None:
        """None if the token is nobody's (any more)."""


class Authorizer(Protocol):
    """Tells what a caller may do."""

    async def is_allowed(self, caller: Caller, action: Action, *, fresh: bool) -> bool:
        """An answer that is not *fresh* may be some seconds old if it is yes, and never if no."""


async def authenticate(request: web.Request, authenticator: Authenticator) -> Caller:
    """
    Who sends *request*.

    Raises:
        UnauthorizedError: it has no bearer token, or one that is no good.
    """
    caller = await authenticator.authenticate(_bearer_token(request))
    if caller is None:
        raise UnauthorizedError("the bearer token is not valid", is_invalid=True)
    return caller


async def authorize(caller: Caller, action: Action, authorizer: Authorizer) -> None:
    """
    Raises:
        ForbiddenError: *caller* may not do *action*.
    """
    # Whoever has lost the right to write has lost it at once.
    if not await authorizer.is_allowed(caller, action, fresh=not action.is_reading):
        raise ForbiddenError(caller, action)


def _bearer_token(request: web.Request) -> str:
    scheme, _, token = request.headers.get(AUTHORIZATION, "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise UnauthorizedError("a bearer token is needed")
    if len(token) > _TOKEN_MAX_CHARS or not token.isascii():
        raise UnauthorizedError("the bearer token is not valid", is_invalid=True)
    return token


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: bytes
    caller: Caller


class TokenFile:
    """
    Callers and rights from a CSV file as Kubernetes' own: `token,user,uid,"group,group"`.

    Group `gatewright:admins` may do everything, `gatewright:viewers` may read. A changed file
    counts from the next request on; one that can't be read any more leaves things as they were.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            SettingsError: the file can't be read, or a line of it.
        """
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._entries: Sequence[_Entry] = ()
        self._stamp, self._entries = self._load()

    async def authenticate(self, token: str) -> Caller | None:
        await asyncio.to_thread(self._reload)
        digest = _digest_of(token)
        found: Caller | None = None
        # All of them, so that the time tells nothing.
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                found = entry.caller
        return found

    async def is_allowed(self, caller: Caller, action: Action, *, fresh: bool) -> bool:
        if ADMINS in caller.groups:
            return True
        return VIEWERS in caller.groups and action.is_reading

    def _reload(self) -> None:
        try:
            if self._look() == self._stamp:
                return
            self._stamp, self._entries = self._load()
        except (OSError, SettingsError) as error:
            # Once for each state of the file, and not for each request.
            stamp = self._look_or_none()
            if stamp != self._stamp:
                self._stamp = stamp
                reason = str(error) if isinstance(error, SettingsError) else error.strerror
                log.warning("token file can't be read", extra={"reason": reason})

    def _look(self) -> tuple[int, int, int]:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _look_or_none(self) -> tuple[int, int, int] | None:
        try:
            return self._look()
        except OSError:
            return None

    def _load(self) -> tuple[tuple[int, int, int], Sequence[_Entry]]:
        try:
            stamp = self._look()
            text = self._path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise SettingsError(f"--api-tokens: can't read {self._path}: {reason}") from None
        return stamp, _read_tokens(text, self._path)


def _read_tokens(text: str, path: Path) -> list[_Entry]:
    entries: dict[bytes, _Entry] = {}
    rows = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    try:
        for row in rows:
            if not row or not "".join(row).strip():
                continue
            # The line, and nothing that stands in it.
            at = f"--api-tokens: {path}:{rows.line_num}"
            if len(row) not in (3, 4):
                raise SettingsError(f'{at}: must be token,user,uid,"group,group"')
            token, name, uid, *groups = [cell.strip() for cell in row]
            if not token or not name:
                raise SettingsError(f"{at}: token and user are needed")
            named = tuple([group.strip() for group in "".join(groups).split(",") if group.strip()])
            digest = _digest_of(token)
            if digest in entries:
                raise SettingsError(f"{at}: the token stands in an earlier line")
            entries[digest] = _Entry(digest, Caller(name, uid, named))
    except csv.Error:
        raise SettingsError(f"--api-tokens: {path}:{rows.line_num}: is not CSV") from None
    return list(entries.values())


def _digest_of(token: str) -> bytes:
    # Of one length for all, and no token stays in memory.
    return hashlib.sha256(token.encode()).digest()
