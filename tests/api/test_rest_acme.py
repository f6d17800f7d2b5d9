"""A workload type of somebody's own, from its formatter to the refusal of a workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.acme import FORMATTER, JOB_GROUP, MAPPING, POLICY, VOLUME_GROUP, make_job
from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, VIEWER, Api


@pytest.mark.slow
async def test_a_new_workload_type_is_registered_governed_and_given_up_again(
    tmp_path: Path,
) -> None:
    async with Api(tmp_path) as api:
        formatter = await api.post(FORMATTERS, FORMATTER)
        assert (formatter.status, formatter.body["scope"]) == (201, "tenant"), formatter
        for group in (JOB_GROUP, VOLUME_GROUP):
            answer = await api.post(FIELD_GROUPS, group)
            assert (answer.status, answer.body["name"]) == (201, group["name"]), answer
        mapping = await api.post(MAPPINGS, MAPPING)
        assert (mapping.status, mapping.body["scope"]) == (201, "tenant"), mapping
        policy = await api.post(POLICIES, POLICY)
        assert policy.status == 201, policy

        # A policy that was just written is in force for the next submission.
        path = "/api/v1/review?namespace=team-a"
        denied = (await api.post(path, make_job(parallelism=9), token=VIEWER)).body[0]
        allowed = (await api.post(path, make_job(), token=VIEWER)).body[0]

        # What is in use stays.
        in_use = [
            await api.delete(f"{FORMATTERS}/podSpecVolumes"),
            await api.delete(f"{FIELD_GROUPS}/acmeJobSpec"),
            await api.delete(MAPPINGS, {"workloadType": ACME}),
        ]
        # What nobody uses any more goes.
        gone = [
            await api.delete(f"{POLICIES}/{policy.body['id']}"),
            await api.delete(MAPPINGS, {"workloadType": ACME}),
            await api.delete(f"{FIELD_GROUPS}/acmeVolumes"),
            await api.delete(f"{FIELD_GROUPS}/acmejobspec"),
            await api.delete(f"{FORMATTERS}/podSpecVolumes"),
        ]

    assert [(one["field"], one["path"], one["accepted"]) for one in denied["violations"]] == [
        ("parallelism", "/spec/parallelism", "≤ 8")
    ]
    assert allowed["allowed"]
    assert allowed["object"]["spec"]["parallelism"] == 1
    assert allowed["object"]["spec"]["template"]["spec"]["volumes"] == [
        {"name": "ca", "configMap": {"name": "ca-bundle"}}
    ]
    assert [answer.status for answer in in_use] == [409, 409, 409]
    assert "in use by" in in_use[1].details
    assert "SpecMapping acme.io-v1-acmejob" in in_use[1].details
    assert [answer.status for answer in gone] == [204] * 5
