"""The REST API of `serve`: whom it asks, and where it writes."""

from __future__ import annotations

import socket

from webhook.api.auth import TokenFile
from webhook.api.rest_services import RestServices
from webhook.cli.stores import ServedStore, query_check
from webhook.clients.access import ClusterAccess
from webhook.clients.discovery import Discovery
from webhook.mapping.evaluator import JqWorker
from webhook.settings import ServeSettings


def build_rest(settings: ServeSettings, store: ServedStore, jq: JqWorker) -> RestServices | None:
    """
    The services of the API; None where nobody could be let in: no cluster, and no token file.

    Raises:
        SettingsError: the token file can't be read.
    """
    access: ClusterAccess | TokenFile
    if store.client is not None:
        access = ClusterAccess(store.client)
    elif settings.api_tokens is not None:
        access = TokenFile(settings.api_tokens)
    else:
        return None
    return RestServices(
        store.documents,
        access,
        access,
        # In a cluster that is the name of the Pod.
        replica=socket.gethostname(),
        check_query=query_check(jq),
        served=Discovery(store.client) if store.client is not None else None,
    )
