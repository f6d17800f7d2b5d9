"""A directory of files as the store: whatever it holds, the rest of it counts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import make_container, make_gvk_policy, make_pod, make_rule, submit
from webhook.errors import EvaluationError, WebhookError
from webhook.model.manifests import dump_yaml
from webhook.model.settings import EngineSettings
from webhook.store.directory import DirectoryStore, find_files, read_sources
from webhook.store.snapshot import Current

GOOD = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))
WEAK = make_pod(containers=[make_container(image="docker.io/x")])
NEEDS_JQ = {
    "apiVersion": "policy.gatewright.io/v1alpha1",
    "kind": "SpecMapping",
    "metadata": {"name": "acme"},
    "spec": {
        "workloadType": {"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
        "specSelectors": {"s": {"query": ".spec | first(.a[])", "fieldGroups": ["metadata"]}},
    },
}


def make_store(
    directory: Path,
    check_query: Callable[[str, str], None] | None = None,
    *,
    poll_period_s: float = 0.01,
    pause: Callable[[float], None] = time.sleep,
) -> DirectoryStore:
    return DirectoryStore(
        directory,
        Current(),
        settings=EngineSettings(),
        check_query=check_query,
        poll_period_s=poll_period_s,
        pause=pause,
    )


def test_links_are_followed_each_directory_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(dump_yaml([GOOD]))
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / ".hidden.yaml").write_text("a: [")

    assert [path.name for path in find_files(tmp_path)] == ["a.yaml"]


def test_a_link_to_nowhere_is_the_problem_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(dump_yaml([GOOD]))
    (tmp_path / "b.yaml").symlink_to(tmp_path / "none")

    snapshot = make_store(tmp_path).load()

    (problem,) = snapshot.problems
    assert problem.document == "b.yaml"
    assert not submit(snapshot, WEAK).allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("canary-token,root,1,gatewright:admins\n", id="tokens"),
        pytest.param(
            "-----BEGIN EC PRIVATE KEY-----\ncanary\n-----END EC PRIVATE KEY-----\n", id="key"
        ),
        pytest.param("A=canary\0B=canary\0", id="environment"),
        pytest.param("root:canary:0:0:root:/root:/bin/sh\n", id="colons"),
        pytest.param("a: canary\n  b: canary: c\n", id="no-yaml"),
        pytest.param("a: [canary\n", id="cut-off"),
        pytest.param("a: *canary\n", id="alias"),
        pytest.param("a: !!canary b\n", id="tag"),
        pytest.param('"canary\\q"', id="escape"),
        pytest.param('{"a": "canary", }', id="no-json"),
        pytest.param("canary", id="text"),
        pytest.param("apiVersion: v1\nkind: Secret\ndata: {a: canary}\n", id="secret"),
    ],
)
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_what_a_link_leads_to_is_not_quoted(tmp_path: Path, content: str, suffix: str) -> None:
    """Who may write here can link to what only the server may read."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (tmp_path / "private").write_text(content)
    (policies / f"link{suffix}").symlink_to(tmp_path / "private")

    snapshot = make_store(policies).load()

    assert snapshot.problems
    assert "canary" not in repr(snapshot.problems)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Reading it would wait for somebody to write, for ever."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "pipe.yaml")

    assert list(find_files(tmp_path)) == []


def test_files_are_named_by_the_path_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text(dump_yaml([GOOD]))

    assert [file.name for file in read_sources(tmp_path)] == [str(tmp_path / "sub" / "a.yaml")]
    assert [file.name for file in read_sources(tmp_path, relative=True)] == ["sub/a.yaml"]


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WebhookError, match="No such file"):
        make_store(tmp_path / "none").load()


async def test_what_could_not_be_checked_is_tried_again(tmp_path: Path) -> None:
    """jq may be busy for a moment; the change must not be lost until the next edit."""
    (tmp_path / "a.yaml").write_text(dump_yaml([NEEDS_JQ]))
    asked: list[str] = []

    def check(source: str, path: str) -> None:
        asked.append(source)
        if len(asked) == 1:
            raise EvaluationError("jq was busy")

    store = make_store(tmp_path, check)
    first = store.load()
    watching = asyncio.create_task(store.watch())
    async with asyncio.timeout(5):
        while len(asked) < 2 or store.current.snapshot.problems:  # noqa: ASYNC110  no event tells
            await asyncio.sleep(0.01)
    watching.cancel()

    assert [problem.path for problem in first.problems] == ["spec.specSelectors.s.query"]
    assert [document.name for document in store.current.snapshot.documents] == ["acme"]


@pytest.mark.slow
async def test_half_a_file_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """A file counts when two looks find it the same."""
    file = tmp_path / "a.yaml"
    file.write_text(dump_yaml([GOOD]))
    store = make_store(tmp_path)
    store.load()

    def names() -> list[str]:
        return [document.name for document in store.current.snapshot.documents]

    watching = asyncio.create_task(store.watch())
    for size in range(1, 30):
        file.write_text("# growing\n" * size)
        await asyncio.sleep(0.005)
    file.write_text(dump_yaml([{**GOOD, "metadata": {"name": "renamed"}}]))
    async with asyncio.timeout(5):
        while names() != ["renamed"]:  # noqa: ASYNC110  no event tells
            await asyncio.sleep(0.01)
    watching.cancel()

    assert not submit(store.current.snapshot, WEAK).allowed


def test_at_the_start_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """Its first half is a document of its own, so only the wait can tell."""
    file = tmp_path / "a.yaml"
    first = {**GOOD, "metadata": {"name": "first"}}
    other = make_gvk_policy(make_rule("hostPID", "podSpec", {"blocked": True}))
    second = {**other, "metadata": {"name": "second"}}
    file.write_text(dump_yaml([first]))
    rest = [f"---\n{dump_yaml([second])}"]

    def write_on(_: float) -> None:
        with file.open("a") as opened:
            opened.write(rest.pop(0) if rest else "")

    # A period so long that the file is fresh, however slow the machine is.
    store = make_store(tmp_path, poll_period_s=3600, pause=write_on)
    snapshot = store.load()

    assert [document.name for document in snapshot.documents] == ["first", "second"]
    assert rest == []


def test_files_that_were_written_long_ago_are_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(dump_yaml([GOOD]))
    os.utime(file, (0, 0))
    pauses: list[float] = []

    make_store(tmp_path, pause=pauses.append).load()

    assert pauses == []


def test_a_file_that_never_stays_the_same_is_not_taken_and_the_others_are(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(dump_yaml([GOOD]))
    restless = tmp_path / "restless.yaml"
    restless.write_text(dump_yaml([{**GOOD, "metadata": {"name": "half"}}]))

    def write_on(_: float) -> None:
        with restless.open("a") as opened:
            opened.write("# more\n")

    snapshot = make_store(tmp_path, poll_period_s=3600, pause=write_on).load()

    (problem,) = snapshot.problems
    assert problem.document == "restless.yaml"
    assert "changes while it is read" in problem.problem
    assert [document.source for document in snapshot.documents] == ["good.yaml#0"]


def test_what_is_in_force_stays_where_the_directory_is_not_as_it_was_seen(tmp_path: Path) -> None:
    """Between the look that found it unchanged and the reading somebody began to write."""
    file = tmp_path / "a.yaml"
    file.write_text(dump_yaml([GOOD]))
    store = make_store(tmp_path)
    first = store.load()
    stat = file.stat()
    seen = ((str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino),)

    file.write_text("# half of a file\n")
    kept = store.load(seen)
    file.write_text("# the whole of it\n")
    stat = file.stat()
    taken = store.load(((str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino),))

    assert kept is first
    assert list(taken.documents) == []
