"""
What the API server makes of quantities, patches and documents of ours, and what we make of them.

Nothing is kept: each request is a dry run, so that as many as a test likes cost little.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import repeat
from math import ceil
from random import Random
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import assume, given

from tests.builders import JsonObject
from tests.controlplane.cluster import REQUEST_TIMEOUT_S
from tests.controlplane.run import ControlPlane
from tests.fuzz.budget import budget
from tests.fuzz.mutations import mutated, paths_in
from tests.fuzz.test_documents import POLICIES
from webhook.catalog.crds import build_crds
from webhook.errors import QuantityError
from webhook.model.documents import parse_document
from webhook.model.quantity import canonical, parse_quantity
from webhook.model.rightsizing.documents import is_rightsizing, read_document
from webhook.patch import Editor

NAMESPACE = "team-a"
DRY_RUN = "?dryRun=All"


class Asking:
    """One kept connection to the API server: with a new one each, requests take ten times as long."""

    def __init__(self, plane: ControlPlane) -> None:
        host, _, port = plane.server_url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cadata=plane.ca_pem)
        self._connection = http.client.HTTPSConnection(
            host, int(port), context=context, timeout=REQUEST_TIMEOUT_S
        )
        self._token = plane.token("admin")

    def ask(
        self, method: str, path: str, body: bytes, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and body of the answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def asking(plane: ControlPlane) -> Iterator[Asking]:
    asking = Asking(plane)
    yield asking
    asking.close()


# -- quantities ------------------------------------------------------------------------------------

QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas{DRY_RUN}"
# A quota takes no amount below zero, and says which it read.
_BELOW_ZERO = re.compile(r'Invalid value: "(?P<text>[^"]*)": must be greater than or equal to 0')


# Of resources of other domains, a quota takes whole amounts only.
def quota(values: Mapping[str, Any]) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "differential"},
            "spec": {"hard": {f"kubernetes.io/{name}": value for name, value in values.items()}},
        }
    )


def read_by_kubernetes(asking: Asking, values: Sequence[Any]) -> list[str]:
    """The canonical texts of *values*, all of which the API server can read."""
    status, answer = asking.ask("POST", QUOTAS, quota({f"q{n}": v for n, v in enumerate(values)}))
    if status == 201:
        hard = answer["spec"]["hard"]
        return [hard[f"kubernetes.io/q{n}"] for n in range(len(values))]

    # Those below zero are named; without them, the others are read.
    assert status == 422, answer
    found: dict[int, str] = {}
    for cause in answer["details"]["causes"]:
        below = _BELOW_ZERO.fullmatch(cause["message"])
        assert below is not None, cause
        found[int(cause["field"].rpartition("/q")[2].rstrip("]"))] = below["text"]
    rest = [number for number in range(len(values)) if number not in found]
    others = read_by_kubernetes(asking, [values[number] for number in rest]) if rest else []
    found.update(zip(rest, others, strict=True))
    return [found[number] for number in range(len(values))]


def is_refused(asking: Asking, value: Any) -> bool:
    """Whether the API server can't read *value* as a quantity."""
    status, answer = asking.ask("POST", QUOTAS, quota({"q": value}))
    assert status in (201, 400, 422), answer
    return status == 400


SUFFIXES = [*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-7", "e+12", "e0", "E1"]
# What comes after a quantity, or in the middle of it, and makes it none.
STRAY = ["B", "b", "i", "K", "mi", "e", "e+", ".", "_", "0x", "-", "+", "m", " ", "1", "NaN", "٣"]


def spelling(random: Random) -> str:
    """A quantity, however long and however fine."""
    whole = "".join(random.choices("0123456789", k=random.randint(1, 22)))
    part = "." + "".join(random.choices("0123456789", k=random.randint(0, 14)))
    return "".join(
        (
            random.choice(["", "", "", "+", "-"]),
            random.choice(["0", "1", "1000", "1024", whole, whole]),
            random.choice(["", "", part]),
            random.choice(SUFFIXES),
        )
    )


def stray_spelling(random: Random) -> str:
    """Nearly a quantity, or one that looks like none."""
    # Short: an exponent of six digits keeps an API server busy for hours.
    text = "".join(random.choices("01.eE-+mkKi", k=random.randint(1, 4)))
    if random.random() < 0.5:
        text = spelling(random)
        at = random.choice([0, len(text), random.randint(0, len(text))])
        text = text[:at] + random.choice(STRAY) + text[at:]
    return text


# What a decimal suffix can't say is written there without any: another amount. See below.
def is_mended(text: str) -> bool:
    return "e" in canonical(text) and re.search("[eE][-+]?[0-9]", text) is None


def in_milli(amount: Fraction) -> Fraction:
    """
    As the API server takes the amounts of a quota: what is finer than milli is rounded up.

    What is below zero is rounded down.
    """
    return Fraction(ceil(abs(amount) * 1000) * (-1 if amount < 0 else 1), 1000)


@pytest.mark.parametrize("seed", range(5))
def test_a_quantity_is_the_amount_and_has_the_canonical_text_that_kubernetes_gives_it(
    asking: Asking, seed: int
) -> None:
    random = Random(seed)
    spellings = [each for each in map(spelling, repeat(random, 400)) if not is_mended(each)]

    theirs = dict(zip(spellings, read_by_kubernetes(asking, spellings), strict=True))

    for each, text in theirs.items():
        assert parse_quantity(text) == in_milli(parse_quantity(each)), each
    # A text that its parser can hold in 64 bits is given back as it came.
    written = {each: text for each, text in theirs.items() if text != each}
    assert len(written) > 100
    for each, text in written.items():
        if parse_quantity(each) == parse_quantity(text):
            assert canonical(each) == text


@pytest.mark.parametrize(("text", "there"), [("1000E", "1"), ("-25000E", "-25")])
def test_an_amount_beyond_all_suffixes_is_written_with_an_exponent(
    asking: Asking, text: str, there: str
) -> None:
    """There it is written without one, and so is another one when it is read again."""
    assert read_by_kubernetes(asking, [text]) == [there]
    assert parse_quantity(canonical(text)) == parse_quantity(text)


def test_a_number_is_the_amount_that_kubernetes_reads(asking: Asking) -> None:
    random = Random(0)
    numbers = [
        *(random.randint(-(2**63), 2**63 - 1) for _ in range(100)),
        *(random.uniform(-1, 1) * 10.0 ** random.randint(-12, 20) for _ in range(300)),
    ]

    theirs = read_by_kubernetes(asking, numbers)

    for number, text in zip(numbers, theirs, strict=True):
        assert parse_quantity(text) == in_milli(parse_quantity(number)), number


# The Go parser takes these for zero, or trims them; its own grammar doesn't have them. We keep to
# the grammar: whoever writes one has made a mistake.
TAKEN_BY_GO_ALONE = re.compile(r"[+-]?\.?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")


def is_read(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


@pytest.mark.parametrize("seed", range(3))
def test_what_is_a_quantity_here_is_one_there_and_the_other_way_round(
    asking: Asking, seed: int
) -> None:
    random = Random(seed)
    texts = sorted({stray_spelling(random) for _ in range(200)})
    doubtful = [t for t in texts if t != t.strip() or TAKEN_BY_GO_ALONE.fullmatch(t)]

    ours = {text: is_read(text) for text in texts if text not in doubtful}

    assert ours == {text: not is_refused(asking, text) for text in ours}
    assert not any(map(is_read, doubtful))


@pytest.mark.parametrize("text", [" 1", "1 ", ".", "m", "+", "Ki"])
def test_these_are_taken_there_and_not_here(asking: Asking, text: str) -> None:
    """Of built-in kinds a webhook never sees them: it is sent the canonical text."""
    with pytest.raises(QuantityError):
        parse_quantity(text)

    assert not is_refused(asking, text)


# -- patches ---------------------------------------------------------------------------------------

THING_CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "anythings.differential.example.com"},
    "spec": {
        "group": "differential.example.com",
        "names": {"kind": "Anything", "plural": "anythings"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
THINGS = f"/apis/differential.example.com/v1/namespaces/{NAMESPACE}/anythings"
KEYS = ["a", "b", "x/y", "m~n", "~1", "~01", "", "0", "-", "é", "a b", "%2F"]
LEAVES: Sequence[Any] = [
    None,
    True,
    False,
    0,
    1,
    -(2**63),
    2**63 - 1,
    0.5,
    1.5e300,
    "",
    "text",
    "é",
]


@pytest.fixture(scope="module")
def things(plane: ControlPlane, asking: Asking) -> Iterator[str]:
    """Where objects that may hold anything can be put."""
    plane.apply(THING_CRD)
    plane.kubectl_checked(
        "wait", "--for=condition=Established", "crd", THING_CRD["metadata"]["name"]
    )
    yield THINGS
    plane.kubectl_checked("delete", "crd", THING_CRD["metadata"]["name"])


def some_value(random: Random, depth: int = 3) -> Any:
    kind = random.random()
    if depth == 0 or kind < 0.4:
        return random.choice(LEAVES)
    if kind < 0.6:
        return [some_value(random, depth - 1) for _ in range(random.randint(0, 3))]
    keys = random.sample(KEYS, random.randint(0, 4))
    return {key: some_value(random, depth - 1) for key in keys}


def edit(random: Random, editor: Editor) -> None:
    """Write or remove something in the document of *editor*, where that can be."""
    known = paths_in(editor.document)
    path = random.choice(known) if known else (random.choice(KEYS),)
    if known and random.random() < 0.3:
        editor.remove(path)
        return
    if random.random() < 0.4:
        path = (*path, *random.sample(KEYS, random.randint(1, 2)))
    try:
        editor.write(path, some_value(random))
    except TypeError:
        # There is a text or a number on the way.
        return


def typed(value: Any) -> bytes:
    """Tells `1` from `true`; a number is the same with and without a fraction of nothing."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).replace(b".0,", b",")


@pytest.mark.parametrize("seed", range(4))
def test_a_patch_is_applied_by_kubernetes_as_by_another_library(
    asking: Asking, things: str, seed: int
) -> None:
    """Hundred documents and their patches in one object each time: a request for all of them."""
    random = Random(seed)
    before: JsonObject = {}
    after: JsonObject = {}
    patch: list[JsonObject] = []
    for number in range(100):
        name = f"d{number}"
        document = {key: some_value(random) for key in random.sample(KEYS, 4)}
        before[name] = copy.deepcopy(document)
        editor = Editor(document)
        for _ in range(random.randint(1, 6)):
            edit(random, editor)
        after[name] = document
        operations = orjson.loads(orjson.dumps(editor.operations))
        patch += [{**each, "path": f"/spec/{name}{each['path']}"} for each in operations]
    thing = {
        "apiVersion": "differential.example.com/v1",
        "kind": "Anything",
        "metadata": {"name": f"thing-{seed}"},
        "spec": before,
    }
    assert asking.ask("POST", things, orjson.dumps(thing))[0] == 201

    status, patched = asking.ask(
        "PATCH",
        f"{things}/thing-{seed}{DRY_RUN}",
        orjson.dumps(patch),
        "application/json-patch+json",
    )

    assert status == 200, patched
    assert typed(patched["spec"]) == typed(after)
    assert typed(jsonpatch.apply_patch(thing, patch)["spec"]) == typed(after)


# -- documents -------------------------------------------------------------------------------------

PLURALS = {
    crd["spec"]["names"]["kind"]: (crd["spec"]["names"]["plural"], crd["spec"]["scope"])
    for crd in build_crds()
}


def create(asking: Asking, document: JsonObject) -> tuple[int, Any]:
    """What the API server says to *document*, by its CRD alone."""
    plural, scope = PLURALS[document["kind"]]
    within = f"/namespaces/{NAMESPACE}" if scope == "Namespaced" else ""
    sent = {**document, "metadata": {**document["metadata"]}}
    if within:
        sent["metadata"]["namespace"] = NAMESPACE
    path = f"/apis/{document['apiVersion']}{within}/{plural}{DRY_RUN}"
    return asking.ask("POST", path, orjson.dumps(sent))


def meaning(document: JsonObject) -> Any:
    """What our reader makes of *document*; None where it refuses it."""
    try:
        if is_rightsizing(document):
            return read_document(document)
        return parse_document(document, "differential.yaml").spec
    except ExceptionGroup:
        return None


def holds_rounded(value: Any) -> bool:
    """Whether there is an integer in *value* that the API server makes another one of."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return any(map(holds_rounded, parts))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


@budget(150)
@given(mutated(POLICIES, below=("spec",)))
def test_what_our_reader_takes_the_schema_takes_and_keeps_its_meaning(
    asking: Asking, document: JsonObject
) -> None:
    """
    Or a policy that `lint` and a directory take could not be stored.

    The schemas let more through than our reader takes, on purpose: what is misspelt must come to
    us, and be refused in our words. So nothing may be cut off on the way that would be refused.
    """
    assume(not holds_rounded(document))
    status, stored = create(asking, document)

    ours = meaning(document)
    assert status == 201 or (status == 422 and ours is None), stored
    if status == 201:
        assert meaning(stored) == ours
