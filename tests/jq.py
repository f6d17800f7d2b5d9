"""Submitting objects of kinds about which jq has to be asked."""

from __future__ import annotations

import copy
from typing import Any

from tests.builders import POLICY_API, Answer, JsonObject, submit
from webhook.admission.review import review
from webhook.mapping.evaluator import JqWorker
from webhook.mapping.locate import answer_by_jq
from webhook.model.decision import Decision
from webhook.model.manifests import Manifest
from webhook.model.request import AdmissionRequest, Phase
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile
from webhook.store.compile.snapshots import build_snapshot
from webhook.store.snapshot import Snapshot


class Jq:
    """A worker, and what takes one: building snapshots, sending objects through both doors."""

    def __init__(self, worker: JqWorker) -> None:
        self.worker = worker

    def build(self, *documents: Any, previous: Snapshot | None = None) -> Snapshot:
        """What *documents* compile to, with every expression tried; problems and all."""
        manifests = tuple([Manifest("m.yaml", i, 1, value) for i, value in enumerate(documents)])
        return build_snapshot(
            [SourceFile("m.yaml", manifests)],
            EngineSettings(),
            previous=previous,
            check_query=lambda subject, path: self.worker.check(subject, path=path),
        )

    def snapshot(self, *documents: Any) -> Snapshot:
        """As `build`, of documents without problems."""
        snapshot = self.build(*documents)
        assert [str(problem) for problem in snapshot.problems] == []
        return snapshot

    def submit(
        self, snapshot: Snapshot, document: JsonObject, *, old: JsonObject | None = None
    ) -> Answer:
        return submit(snapshot, document, old=old, decide=self.decide)

    def decide(self, request: AdmissionRequest, phase: Phase, snapshot: Snapshot) -> Decision:
        """As `review`, with all that jq is asked."""
        before = copy.deepcopy(request.object)

        def once(answers: Any) -> Decision:
            # A review that ends with questions has changed nothing.
            assert request.object == before
            return review(request, phase, snapshot, answers)

        return answer_by_jq(self.worker, request.object or {}, once)


def make_formatter(fields: JsonObject, name: str = "acme", **spec: Any) -> JsonObject:
    return _document("Formatter", name, {"fields": fields, **spec})


def make_group(fields: JsonObject, name: str = "own", **spec: Any) -> JsonObject:
    return _document("FieldGroup", name, {"fields": fields, **spec})


ACME = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}


def make_mapping(query: str = ".spec", *groups: str, **selector: Any) -> JsonObject:
    """The mapping of AcmeJob: one selector `s`, with the group `own` unless *groups* are given."""
    own = {"query": query, "fieldGroups": [*(groups or ("own",))], **selector}
    return _document("SpecMapping", "acme", {"workloadType": ACME, "specSelectors": {"s": own}})


def make_acme_job(**spec: Any) -> JsonObject:
    metadata = {"name": "train", "namespace": "team-a"}
    return {"apiVersion": "acme.io/v1", "kind": "AcmeJob", "metadata": metadata, "spec": spec}


def _document(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": POLICY_API, "kind": kind, "metadata": {"name": name}, "spec": spec}
