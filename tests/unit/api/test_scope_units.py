from __future__ import annotations

from typing import Any

import pytest

from webhook.api.rest.scope_units import ScopeUnit
from webhook.model.scopes import Scope


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(ScopeUnit(Scope.PROJECT, "team-a"), "project team-a", id="project"),
        pytest.param(ScopeUnit(Scope.CLUSTER), "cluster", id="this-cluster"),
        pytest.param(ScopeUnit(Scope.TENANT), "tenant", id="without-units"),
    ],
)
def test_messages_name_the_scope_and_its_unit(unit: ScopeUnit, want: str) -> None:
    assert str(unit) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"scope": "project", "project": "team-a"}, True, id="same"),
        pytest.param({"scope": "Project", "project": "team-a"}, True, id="in-another-case"),
        pytest.param({"scope": "project", "project": "team-b"}, False, id="another-unit"),
        pytest.param({"scope": "department", "department": "team-a"}, False, id="another-scope"),
        pytest.param({"scope": "tenant"}, False, id="wider"),
        pytest.param({}, False, id="nowhere"),
    ],
)
def test_a_policy_is_of_the_unit_that_it_names(spec: dict[str, Any], want: bool) -> None:
    # Where the unit lies makes it no other one.
    unit = ScopeUnit(Scope.PROJECT, "team-a", ((Scope.DEPARTMENT, "research"),))

    assert unit.is_of(spec) is want
