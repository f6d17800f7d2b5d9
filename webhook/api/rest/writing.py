"""Changes: checked as lint would, and written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Mapping
from typing import Any

from webhook.admission.texts import NAME_MAX_CHARS, clean
from webhook.api.problems import BadRequestError, HeldError
from webhook.api.rest.body_paths import in_body, without_spec
from webhook.api.rest.document_names import changed_manifest
from webhook.api.rest.preconditions import Precondition
from webhook.api.rest.resources import Resource, spec_of
from webhook.api.rest_services import RestServices
from webhook.api.services import Services
from webhook.errors import ConflictError, EvaluationError, StoreError
from webhook.model.access import Caller
from webhook.store.changes import ChangeCheck, check_change
from webhook.store.snapshot import DocumentProblem, Door, ProblemReason
from webhook.store.source import Stored

log = logging.getLogger("gatewright.api")

# How long news of the cluster may take to all replicas.
_NEWS_S = 1.0

# Of a change that others were faster than.
_MAX_ATTEMPTS = 4
_RESTLESS = "others change it all the time; try again"

_ANY = Precondition()


class Writer:
    """
    Writes documents for one caller. What he should know of a write that succeeds is added to
    *warnings*.

    One that is only *trying* does all that a write does, and leaves out the last step of it.
    """

    def __init__(
        self,
        services: Services,
        rest: RestServices,
        caller: Caller,
        *,
        warnings: list[str],
        trying: bool = False,
    ) -> None:
        self._services = services
        self._rest = rest
        self._caller = caller
        self._warnings = warnings
        self._trying = trying

    async def create(
        self, resource: Resource, manifest: dict[str, Any], condition: Precondition = _ANY
    ) -> Stored:
        """
        Raises:
            BadRequestError: lint refuses it.
            ConflictError: there is one of this name, or another holds what it claims.
            PreconditionError: *condition* asks for one that is there.
        """
        condition.check_absent()
        async with self._rest.writes:
            await self._check(resource, put=manifest)
            stored = await self._rest.store.create_document(manifest, dry_run=self._trying)
        self._tell("create", stored)
        return stored

    async def replace(
        self, resource: Resource, manifest: dict[str, Any], source: str = ""
    ) -> Stored:
        """
        Write a new version of the document that problems name *source*.

        Raises:
            BadRequestError: lint refuses it.
            NotFoundError: there is none of this name (any more).
            ConflictError: it was changed meanwhile, or another holds what it claims.
        """
        async with self._rest.writes:
            await self._check(resource, put=manifest, source=source)
            stored = await self._rest.store.replace_document(manifest, dry_run=self._trying)
        self._tell("update", stored)
        return stored

    async def change(
        self,
        resource: Resource,
        stored: Stored,
        changed: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        condition: Precondition = _ANY,
        annotations: Mapping[str, str] | None = None,
    ) -> Stored:
        """
        Replace the spec of *stored* by what *changed* makes of it.

        If somebody else was faster, it is made anew of what he has written, unless *condition*
        then no longer holds.

        Raises:
            PreconditionError: *condition* asks for none.
            as `replace`.
        """
        for _ in range(_MAX_ATTEMPTS):
            condition.check(stored)
            if stored.read_only:
                raise ConflictError(stored.read_only)
            manifest = changed_manifest(stored, changed(spec_of(stored)), annotations)
            try:
                return await self.replace(resource, manifest, stored.source)
            except ConflictError:
                now = await self._rest.store.fetch_document(stored.kind, stored.name)
                if now.resource_version == stored.resource_version:
                    raise
                stored = now
        raise ConflictError(_RESTLESS)

    async def delete(
        self, resource: Resource, stored: Stored, *, condition: Precondition = _ANY
    ) -> None:
        """
        Raises:
            NotFoundError: it is gone already.
            ConflictError: it is in use, was changed meanwhile, or is not the version of
                *condition*.
            PreconditionError: *condition* asks for none.
        """
        for _ in range(_MAX_ATTEMPTS):
            condition.check(stored)
            if stored.read_only:
                raise ConflictError(stored.read_only)
            try:
                await self._delete(resource, stored)
            except ConflictError:
                now = await self._rest.store.fetch_document(stored.kind, stored.name)
                if now.resource_version == stored.resource_version:
                    raise
                stored = now
            else:
                self._tell("delete", stored)
                return
        raise ConflictError(_RESTLESS)

    async def _delete(self, resource: Resource, stored: Stored) -> None:
        async with self._rest.writes:
            await self._check(resource, delete=(stored.kind, stored.name))
            await self._rest.store.delete_document(
                stored.kind, stored.name, stored.resource_version
            )

    async def _check(
        self,
        resource: Resource,
        *,
        put: dict[str, Any] | None = None,
        delete: tuple[str, str] | None = None,
        source: str = "",
    ) -> None:
        """*source* is how problems name the document that is there already."""
        own = {source}
        if put is not None:
            own.add(f"{put['kind']} {put['metadata']['name']}")
        found = await self._look(put, delete)
        if found.missing and not found.problems and self._rest.served is not None:
            # Another replica may have written it just now.
            await asyncio.sleep(_NEWS_S)
            found = await self._look(put, delete)
        if found.users:
            raise ConflictError(f"the {resource.noun} is in use by {', '.join(found.users)}")
        problems = [*found.problems, *found.missing]
        if not problems:
            # Of the last attempt.
            self._warnings[:] = [_line(resource, warning, own) for warning in found.warnings]
            return
        lines = [_line(resource, problem, own) for problem in problems]
        if all(problem.reason is ProblemReason.FIELD_CONFLICT for problem in problems):
            raise HeldError(f"the {resource.noun} conflicts with others", "\n".join(lines))
        raise BadRequestError("", f"the {resource.noun} is wrong", "\n".join(lines))

    async def _look(
        self, put: dict[str, Any] | None, delete: tuple[str, str] | None
    ) -> ChangeCheck:
        rest = self._rest
        try:
            return await rest.run(
                check_change,
                rest.store.sources,
                self._services.current.snapshot,
                put=put,
                delete=delete,
                check_query=rest.check_query,
            )
        except EvaluationError as error:
            # Nobody's fault, and nothing is written.
            raise StoreError(str(error)) from error

    def _tell(self, verb: str, stored: Stored) -> None:
        """Who changed what. The store knows only us."""
        if self._trying:
            return
        log.info(
            "document written",
            extra={
                "user": clean(self._caller.name, NAME_MAX_CHARS),
                "verb": verb,
                "kind": stored.kind,
                "document": stored.name,
            },
        )


def _line(resource: Resource, problem: DocumentProblem, own: Container[str]) -> str:
    """One problem as its author reads it."""
    told = problem.told(Door.REST)
    if problem.document in own:
        return in_body(resource.kind, problem.path, told)
    # What the change makes wrong in others.
    return f"{problem.document}: {without_spec(problem.path, told)}"
