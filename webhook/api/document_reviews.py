"""Reviews of our own documents, as an API server asks for them."""

from __future__ import annotations

import asyncio
from functools import partial

from webhook.admission.decode import Review
from webhook.admission.documents import change_of, decide, respond
from webhook.admission.texts import to_json
from webhook.api.services import OwnDocuments
from webhook.errors import EvaluationError
from webhook.model.decision import Decision
from webhook.model.request import Phase
from webhook.store.changes import check_change
from webhook.store.snapshot import Snapshot


async def judge_document(
    review: Review, phase: Phase, snapshot: Snapshot, own: OwnDocuments, *, wait_until: float
) -> tuple[Decision, bytes]:
    """
    The decision about writing or deleting a document, and the answer that tells it.

    *wait_until* is a time of the event loop.

    Raises:
        EvaluationError: it could not be checked in time. The cluster's failurePolicy decides.
    """
    change = change_of(review.request)
    if phase is Phase.MUTATE:
        change = "documents are judged by /validate"
    if isinstance(change, str):
        decision = Decision(allowed=True, reason=change)
        return decision, to_json(respond(review, decision, None))
    if own.look_around is not None and change.put is not None:
        await own.look_around(change.put)
    work = partial(
        check_change,
        own.sources(),
        snapshot,
        put=change.put,
        delete=change.delete,
        check_query=own.check_query,
    )
    try:
        async with asyncio.timeout_at(wait_until):
            check = await asyncio.get_running_loop().run_in_executor(own.thread, work)
    except TimeoutError:
        raise EvaluationError("the document could not be checked in time") from None
    decision = decide(review.request, check)
    return decision, to_json(respond(review, decision, check))
