"""One request of the API: who sends it, what it is about, and the services behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

from webhook.api.auth import authenticate, authorize
from webhook.api.rest.requests import rest_of
from webhook.api.rest.resources import Registered, Resource
from webhook.api.rest.writing import Writer
from webhook.api.rest_services import RestServices
from webhook.api.services import SERVICES, Services
from webhook.model.access import Action, Caller
from webhook.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose sender is known. What he may do is asked one by one."""

    request: web.Request
    services: Services
    rest: RestServices
    caller: Caller
    # What is to be said of what it has written.
    warnings: list[str] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        return self.services.current.snapshot

    @property
    def writer(self) -> Writer:
        return Writer(self.services, self.rest, self.caller, warnings=self.warnings)

    @property
    def trial_writer(self) -> Writer:
        """One that does everything but write."""
        return Writer(self.services, self.rest, self.caller, warnings=self.warnings, trying=True)

    async def require_right(
        self, verb: str, resource: Resource, about: Registered | str = ""
    ) -> None:
        """
        Raises:
            ForbiddenError: the caller may not do *verb* to *about*: an object, or the name of a
                document; empty where it is about none.
        """
        name = about if isinstance(about, str) else about.document_name
        action = Action(verb, resource=resource.plural, name=name)
        await authorize(self.caller, action, self.rest.authorizer)

    async def require_path(self) -> None:
        """
        Raises:
            ForbiddenError: the caller may not call this path, which is about no CRD.
        """
        action = Action(self.request.method.lower(), path=self.request.path)
        await authorize(self.caller, action, self.rest.authorizer)


async def identify(request: web.Request) -> Call:
    """
    Find out who sends *request*.

    Raises:
        UnauthorizedError: nobody that is known.
        NotFoundError: there is no API.
    """
    rest = rest_of(request)
    return Call(
        request, request.app[SERVICES], rest, await authenticate(request, rest.authenticator)
    )
