"""A policy directory as the store that the API writes to."""

from __future__ import annotations

import asyncio
import copy
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import POLICY_API, JsonObject, make_gvk_policy, make_rule
from webhook.errors import ConflictError, NotFoundError, StoreError
from webhook.model.manifests import dump_yaml, load_file
from webhook.model.settings import EngineSettings
from webhook.store.directory import DirectoryStore
from webhook.store.snapshot import Current

POLICY = make_gvk_policy(make_rule("hostNetwork", "podSpec", {"options": [False]}), name="api-one")
FILE = "api-gvkpolicy-api-one.yaml"


def open_store(directory: Path, **files: JsonObject) -> DirectoryStore:
    """A store on *directory* with *files*, loaded."""
    for name, document in files.items():
        (directory / f"{name}.yaml").write_text(dump_yaml([document]))
    store = DirectoryStore(directory, Current(), settings=EngineSettings())
    store.load()
    return store


def names(directory: Path) -> list[str]:
    """Of all that lies below *directory*."""
    return [path.name for path in directory.rglob("*")]


def changed(document: JsonObject, **spec: Any) -> JsonObject:
    made = copy.deepcopy(document)
    made["spec"].update(spec)
    return made


def in_force(store: DirectoryStore) -> dict[str, str]:
    """The revision of each document in force, by name."""
    return {document.name: document.revision for document in store.current.snapshot.documents}


async def test_a_new_document_is_a_file_of_its_own_and_in_force_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    stored = await store.create_document(copy.deepcopy(POLICY))

    (manifest,) = load_file(tmp_path / FILE)
    assert manifest.value == POLICY
    assert names(tmp_path) == [FILE]
    assert set(in_force(store)) == {"api-one"}
    assert stored.manifest["metadata"] == {
        "name": "api-one",
        "resourceVersion": stored.resource_version,
    }
    assert stored.read_only == ""
    assert await store.fetch_document("GVKPolicy", "API-One") == stored
    assert await store.list_documents("GVKPolicy") == [stored]
    assert await store.list_documents("SpecMapping") == []


async def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = await store.create_document(POLICY)
    before = in_force(store)

    second = await store.replace_document(changed(first.manifest, description="new"))

    assert second.resource_version != first.resource_version
    assert in_force(store) != before
    (manifest,) = load_file(tmp_path / FILE)
    assert manifest.value == changed(POLICY, description="new")
    # The content alone counts.
    third = await store.replace_document(changed(POLICY))
    assert third.resource_version == first.resource_version


async def test_who_read_an_older_version_is_told_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = await store.create_document(POLICY)
    await store.replace_document(changed(first.manifest, description="new"))

    with pytest.raises(ConflictError, match="was changed meanwhile"):
        await store.replace_document(changed(first.manifest, description="other"))
    with pytest.raises(ConflictError, match="was changed meanwhile"):
        await store.delete_document("GVKPolicy", "api-one", first.resource_version)

    (manifest,) = load_file(tmp_path / FILE)
    assert manifest.value["spec"]["description"] == "new"


async def test_an_edit_by_hand_counts_as_a_change_before_it_is_seen(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = await store.create_document(POLICY)
    (tmp_path / FILE).write_text(dump_yaml([changed(POLICY, description="by hand")]))

    with pytest.raises(ConflictError, match="was changed meanwhile"):
        await store.replace_document(first.manifest)


async def test_a_deleted_document_is_gone_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = await store.create_document(POLICY)

    await store.delete_document("GVKPolicy", "API-ONE", first.resource_version)

    assert names(tmp_path) == []
    assert in_force(store) == {}
    with pytest.raises(NotFoundError):
        await store.fetch_document("GVKPolicy", "api-one")
    with pytest.raises(NotFoundError):
        await store.delete_document("GVKPolicy", "api-one")
    with pytest.raises(NotFoundError):
        await store.replace_document(POLICY)


@pytest.mark.slow
async def test_documents_in_other_files_are_read_and_never_written(tmp_path: Path) -> None:
    store = open_store(tmp_path, team=POLICY)

    (stored,) = await store.list_documents("GVKPolicy")
    assert stored.read_only == "it stands in team.yaml, which is edited by hand"
    assert stored.source == "team.yaml#0"
    for write in (
        store.create_document(POLICY),
        store.replace_document(changed(stored.manifest, description="new")),
        store.delete_document("GVKPolicy", "api-one"),
    ):
        with pytest.raises(ConflictError, match=r"team\.yaml|already"):
            await write

    (manifest,) = load_file(tmp_path / "team.yaml")
    assert manifest.value == POLICY


async def test_two_that_create_one_document_don_t_both_succeed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    other = changed({**POLICY, "metadata": {"name": "API-one"}}, description="other")

    results = await asyncio.gather(
        *[store.create_document(document) for document in (POLICY, other)], return_exceptions=True
    )

    assert sorted([type(result).__name__ for result in results]) == ["ConflictError", "Stored"]


async def test_a_file_that_came_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    # Not readable as a document, so the store does not know what it is.
    (tmp_path / FILE).write_text("kind: [")

    with pytest.raises(ConflictError, match="exists already"):
        await store.create_document(POLICY)

    assert (tmp_path / FILE).read_text() == "kind: ["


@pytest.mark.parametrize("name", ["../evil", "a/b", ".hidden", "a b", "", "x" * 300, "ä"])
async def test_a_name_that_is_none_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "policies").mkdir()
    store = open_store(tmp_path / "policies")

    with pytest.raises(StoreError, match="is no name of an object"):
        await store.create_document({**POLICY, "metadata": {"name": name}})

    assert names(tmp_path) == ["policies"]


@pytest.mark.slow
async def test_a_link_in_the_place_of_a_file_is_never_written_through(tmp_path: Path) -> None:
    policies, outside = tmp_path / "policies", tmp_path / "outside.yaml"
    policies.mkdir()
    outside.write_text("kind: [")
    (policies / FILE).symlink_to(outside)
    store = open_store(policies)
    with pytest.raises(ConflictError, match="exists already"):
        await store.create_document(copy.deepcopy(POLICY))
    outside.write_text(dump_yaml([POLICY]))
    before = outside.read_text()

    await store.replace_document(changed(POLICY, scope="cluster", cluster="a"))
    assert not (policies / FILE).is_symlink()
    await store.delete_document("GVKPolicy", "api-one")

    assert names(policies) == []
    assert outside.read_text() == before


@pytest.mark.slow
async def test_a_directory_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(dump_yaml([POLICY]))
    store = DirectoryStore(file, Current(), settings=EngineSettings())
    store.load()

    with pytest.raises(StoreError, match="into a directory only"):
        await store.create_document({**POLICY, "metadata": {"name": "two"}})


async def test_half_a_file_is_never_seen(tmp_path: Path) -> None:
    """Whoever lists the directory while we write finds the old file or the new one."""
    store = open_store(tmp_path)
    await store.create_document(POLICY)
    seen: set[str] = set()
    done = asyncio.Event()

    async def look() -> None:
        while not done.is_set():
            for name in os.listdir(tmp_path):
                if name.endswith(".yaml"):
                    (manifest,) = load_file(tmp_path / name)
                    seen.add(manifest.value["spec"].get("description", ""))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    for number in range(5):
        await store.replace_document(changed(POLICY, description=f"{number}" * 5000))
    done.set()
    await looking

    assert seen <= {"", *[f"{number}" * 5000 for number in range(5)]}


async def test_a_document_with_an_error_is_stored_and_listed_all_the_same(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    bad = {"apiVersion": POLICY_API, "kind": "GVKPolicy", "metadata": {"name": "bad"}, "spec": {}}

    stored = await store.create_document(bad)

    assert await store.list_documents("GVKPolicy") == [stored]
    assert in_force(store) == {}
    assert store.current.snapshot.problems
