from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from webhook.api.auth import TokenFile
from webhook.errors import SettingsError
from webhook.model.access import Action, Caller

TOKEN = "hunter2-canary"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def test_a_line_names_a_caller_with_his_groups(tmp_path: Path) -> None:
    file = TokenFile(write(tmp_path / "t.csv", f'{TOKEN},adam,7,"one, two"\n\nx,eve,8\n'))

    assert await file.authenticate(TOKEN) == Caller("adam", "7", ("one", "two"))
    assert await file.authenticate("x") == Caller("eve", "8")
    assert await file.authenticate("X") is None
    assert await file.authenticate("") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(f"{TOKEN},adam\n", ":1: must be token,user,uid", id="too-few"),
        pytest.param(f"a,b,c\n{TOKEN},adam,1,x,y\n", ":2: must be token,user,uid", id="too-many"),
        pytest.param(f"{TOKEN},,1\n", ":1: token and user are needed", id="no-user"),
        pytest.param(",adam,1\n", ":1: token and user are needed", id="no-token"),
        pytest.param(f"{TOKEN},a,1\n{TOKEN},b,2\n", ":2: the token stands in", id="twice"),
        pytest.param(f'{TOKEN},a,"1\n', "is not CSV", id="open-quote"),
    ],
)
def test_a_wrong_line_is_named_and_not_quoted(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path / "t.csv", text)

    with pytest.raises(SettingsError) as caught:
        TokenFile(path)

    assert problem in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can.t read .*t\.csv: No such file"):
        TokenFile(tmp_path / "t.csv")


async def test_a_changed_file_counts_from_the_next_request_on(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "old,adam,1\n")
    file = TokenFile(path)

    write(path, "new,adam,1\nother,eve,2\n")

    assert await file.authenticate("old") is None
    assert await file.authenticate("new") == Caller("adam", "1")


async def test_a_file_that_breaks_leaves_things_as_they_were_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "t.csv", "old,adam,1\n")
    file = TokenFile(path)

    with caplog.at_level(logging.WARNING):
        write(path, "this is no token file\n")
        assert await file.authenticate("old") == Caller("adam", "1")
        assert await file.authenticate("old") == Caller("adam", "1")
    assert [record.message for record in caplog.records] == ["token file can't be read"]

    os.remove(path)
    assert await file.authenticate("old") == Caller("adam", "1")
    write(path, "new,adam,1\n")
    assert await file.authenticate("old") is None


READING = (
    Action("list", resource="formatters"),
    Action("get", resource="gvkpolicies", name="x"),
    Action("get", path="/api/v1/decisions"),
    Action("post", path="/api/v1/review"),
    Action("post", path="/api/v1/policies/effective"),
    Action("get", path="/api/openapi.json"),
)
WRITING = (
    *[Action(verb, resource="formatters", name="x") for verb in ("update", "patch", "delete")],
    Action("create", resource="formatters"),
)


@pytest.mark.parametrize(
    ("group", "reads", "writes"),
    [
        pytest.param("gatewright:admins", True, True, id="admins"),
        pytest.param("gatewright:viewers", True, False, id="viewers"),
        pytest.param("gatewright:admin", False, False, id="others"),
    ],
)
async def test_admins_write_and_viewers_read(
    tmp_path: Path, group: str, reads: bool, writes: bool
) -> None:
    file = TokenFile(write(tmp_path / "t.csv", "x,y,z\n"))
    caller = Caller("y", groups=("z", group))

    assert {await file.is_allowed(caller, one, fresh=False) for one in READING} == {reads}
    assert {await file.is_allowed(caller, one, fresh=True) for one in WRITING} == {writes}
