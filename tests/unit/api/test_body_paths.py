from __future__ import annotations

import pytest

from webhook.api.rest.body_paths import in_body, without_spec


@pytest.mark.parametrize(
    ("kind", "path", "message", "want"),
    [
        pytest.param(
            *("GVKPolicy", "spec.rules[1]", "spec.rules[0] is about x"),
            "rules[1]: rules[0] is about x",
            id="within-the-message",
        ),
        pytest.param(
            *(
                "WorkloadPolicy",
                "spec.defaults.a[1]",
                "stands at spec.defaults.a[0]; see spec.rules",
            ),
            "policy.defaults.a[1]: stands at policy.defaults.a[0]; see policy.rules",
            id="below-policy",
        ),
        pytest.param("GVKPolicy", "spec.project", "is needed", "projectId: is needed", id="unit"),
        pytest.param(
            "WorkloadPolicy", "spec.department", "x", "meta.departmentId: x", id="unit-below-meta"
        ),
        pytest.param("SpecMapping", "spec", "must be an object", "must be an object", id="all"),
        pytest.param("FieldGroup", "spec.field", "x", "field: x", id="unknown-key"),
        pytest.param("SpecMapping", "", "is no mapping", "is no mapping", id="no-path"),
        # What stands in an object, or in somebody's expression, is not ours.
        pytest.param(
            *("SpecMapping", "spec.specSelectors.a.query", "`.spec.scale` of /spec.scale yields"),
            "specSelectors.a.query: `.spec.scale` of /spec.scale yields",
            id="query",
        ),
        pytest.param(
            *(
                "FieldGroup",
                "spec.fields.a.specRef",
                "'spec.fields' and spec.replicas, spec.fieldset",
            ),
            "fields.a.specRef: 'spec.fields' and spec.replicas, spec.fieldset",
            id="somebody-elses-spec",
        ),
    ],
)
def test_paths_of_a_document_become_those_of_its_body(
    kind: str, path: str, message: str, want: str
) -> None:
    assert in_body(kind, path, message) == want


def test_of_another_document_only_the_path_before_is_cut() -> None:
    assert without_spec("spec.rules[0]", "as spec.rules[1]") == "rules[0]: as spec.rules[1]"
    assert without_spec("", "is gone") == "is gone"
