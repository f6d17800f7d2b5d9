"""What must be so of a thing before a request changes it (RFC 9110, section 13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.hdrs import IF_MATCH, IF_NONE_MATCH

from webhook.api.problems import BadRequestError, PreconditionError
from webhook.api.rest.resources import has_version
from webhook.errors import ConflictError
from webhook.store.source import Stored

CHANGED = "it was changed meanwhile; read it again"

_ANY = "*"

_HOW = 'must be * or tags: "a", "b"'

# An entity tag. Proxies that pack an answer make a strong one weak; the content is the same. Some
# clients leave the quotes out.
_TAG = re.compile(r'[ \t,]*(?:W/)?(?:"([^"]*)"|([^",\s]+))(?=[ \t]*(?:,|$))')


@dataclass(frozen=True, slots=True)
class Precondition:
    """
    One request's condition.

    *versions*: it is one of these (none given: any will do). *is_there*: there is one, of whatever
    version. *others*: it is none of these; with *is_absent*, there is none at all.
    """

    versions: tuple[str, ...] = ()
    is_there: bool = False
    others: tuple[str, ...] = ()
    is_absent: bool = False

    def check(self, stored: Stored) -> None:
        """
        Whether *stored* may be changed or deleted.

        Raises:
            ConflictError: it is none of the versions that the caller means.
            PreconditionError: it should not be there, or not in this version.
        """
        self.check_shipped()
        if self.versions and not any(has_version(stored, version) for version in self.versions):
            raise ConflictError(CHANGED)
        if any(has_version(stored, version) for version in self.others):
            raise PreconditionError("it is the version that If-None-Match names")

    def check_shipped(self) -> None:
        """
        Whether what ships with us, which has no version, may be added to.

        Raises:
            PreconditionError: it should not be there.
        """
        if self.is_absent:
            raise PreconditionError("it is there already, and If-None-Match: * asks for none")

    def check_absent(self) -> None:
        """
        Whether what is not there may be made.

        Raises:
            ConflictError: a version of it was to be changed.
            PreconditionError: it should be there.
        """
        if self.versions:
            raise ConflictError("it was changed meanwhile: it is gone")
        if self.is_there:
            raise PreconditionError("there is none, and If-Match: * asks for one")


def read_precondition(request: web.Request, body: dict[str, Any] | None = None) -> Precondition:
    """
    What the head of *request* and, taken out of *body*, `resourceVersion` ask for.

    Raises:
        BadRequestError: a tag can't be read, there is none or no version where one should be, or
            the two differ.
    """
    given = ""
    if body is not None and "resourceVersion" in body:
        given = body.pop("resourceVersion")
        # Whoever lost the version on the way must not overwrite what he wanted to look out for.
        if not isinstance(given, str) or not given:
            raise BadRequestError("resourceVersion", "must be text, and not empty; or leave it out")
    versions, is_there = _read_tags(request, IF_MATCH)
    others, is_absent = _read_tags(request, IF_NONE_MATCH)
    if given and versions and given not in versions:
        raise BadRequestError("resourceVersion", "is not that of If-Match")
    return Precondition((given,) if given else versions, is_there, others, is_absent)


def _read_tags(request: web.Request, header: str) -> tuple[tuple[str, ...], bool]:
    """The tags in *header*, and whether it says "any"."""
    lines = request.headers.getall(header, [])
    text = ",".join(lines).strip()
    if text == _ANY:
        return (), True
    tags: list[str] = []
    position = 0
    while text[position:].strip(" \t,"):
        found = _TAG.match(text, position)
        if found is None or found[2] == _ANY:
            raise BadRequestError(header, _HOW)
        tags.append(found[1] or found[2] or "")
        position = found.end()
    if lines and not tags:
        raise BadRequestError(header, _HOW)
    return tuple(tags), False
