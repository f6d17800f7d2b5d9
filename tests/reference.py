"""
The reference, docs/reference: of the policy language, made from the catalogue, and more pages.

`python -m tests.reference` writes the files; look at the diff afterwards. What a type of value
can be ruled by is asked of the compiler, so that no page promises what a policy can't say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.reference_gpu import gpu_page
from tests.reference_homes import homes_page
from tests.reference_metrics import metrics_page
from tests.reference_parts import code, codes, table
from tests.reference_settings import settings_page
from tests.unit.catalog.policies import problems_of, tree
from webhook.catalog import (
    builtin_documents,
    native_places,
    native_presences,
    native_rows,
    native_rows_of,
    native_spellings,
)
from webhook.model.kinds import NATIVE_KINDS
from webhook.model.values import FieldType
from webhook.policy.native.conditions import NEEDED, VARIABLE_SECTIONS

DIRECTORY = Path(__file__).parents[1] / "docs" / "reference"

Row = Mapping[str, Any]

FILES = {
    "workspace": "workspace.md",
    "training": "training.md",
    "distributed": "distributed.md",
    "inference": "inference.md",
    "distributedInference": "distributed-inference.md",
    "nimService": "nim-service.md",
}
TITLES = {
    "workspace": "Workspaces",
    "training": "Standard training",
    "distributed": "Distributed training",
    "inference": "Inference",
    "distributedInference": "Distributed inference",
    "nimService": "NVIDIA NIM services",
}
ROLES = ("master", "worker", "leader")

# In the order of the pages. "" is what stands in no section.
SECTIONS = {
    "": "General",
    "compute": "Compute",
    "security": "Security",
    "storage": "Storage",
    "modelStore": "Model store",
    "probes": "Probes",
    "servingPort": "Serving port",
    "autoscaling": "Autoscaling",
    "servingConfiguration": "Serving configuration",
    "podAffinity": "Pod affinity",
    "multiNode": "Multi-node",
}

# How values of a type are written, with an example.
TYPE_TEXTS = {
    FieldType.BOOLEAN: ("`true` or `false`", "`true`"),
    FieldType.STRING: ("text; what looks like a number needs quotes", "`ubuntu`"),
    FieldType.INTEGER: ("a whole number, or text that is one", "`8`"),
    FieldType.NUMBER: ("a number, or text that is one", "`0.5`"),
    FieldType.QUANTITY: ("a Kubernetes quantity; compared by amount", "`4Gi`"),
    FieldType.STRINGS: ("a list of texts, ruled as a whole", "`[node-a, node-b]`"),
    FieldType.OBJECT: ("an object, ruled as a whole", "`{key: value}`"),
    FieldType.ITEMIZED: ("a list of objects that a key tells apart", "see below"),
}

# What a rule asks for, and how it is written.
RULE_TEXTS = {
    "canEdit": (
        "with `false`: absent, or equal to the default; with no default: absent",
        "`canEdit: false`",
    ),
    "required": ("present and not empty, after defaults", "`required: true`"),
    "blocked": ("absent, or empty", "`blocked: true`"),
    "min": ("not below, the bound included", "`min: 1`"),
    "max": ("not above, the bound included", "`max: 8`"),
    "step": ("`min` (else 0) plus a multiple of the step", "`step: 2`"),
    "options": (
        "one of the listed values; of a list, every element is",
        "`options: [a, b]`; items may be `{value: a, displayed: A}`",
    ),
    "pattern": (
        "matches one of the globs (`*`, `?`); of a list, every element does",
        '`pattern: ["nvcr.io/*"]`',
    ),
    "defaultFrom": (
        "nothing: where there is neither a value nor a default, fills in another field of the"
        " section, times a factor",
        "`defaultFrom: {field: compute.cpuCoreLimit, factor: 0.5}`",
    ),
}
ITEM_RULES = {
    "canAdd": (
        "with `false`: every item has the key of a default or imposed item",
        "`instances: {canAdd: false}`",
    ),
    "locked": (
        "the default items with the listed keys are there, unchanged",
        "`instances: {locked: [HOME, USER]}`",
    ),
}


# --- what the compiler says ---


@cache
def rules_of(value_type: FieldType) -> tuple[str, ...]:
    """The rules that fields of a type take: `set` is none of them, and lint lists those."""
    path, row = next((p, row) for p, row in native_rows().items() if row["type"] == value_type)
    ((_, problem),) = problems_of(next(iter(row["workloads"])), rules=tree(path, {"set": 1}))
    match = re.search(r"has no rule set; it has (.+)$", problem)
    if match is None:
        raise AssertionError(f"lint lists no rules: {problem}")
    return tuple(match[1].split(", "))


# --- parts of a page ---


def values_of(row: Row) -> str:
    """What a value may be, beside its type."""
    parts = []
    if "enum" in row:
        parts.append(codes(row["enum"]))
    if "min" in row and "max" in row:
        parts.append(f"{row['min']} to {row['max']}")
    elif "min" in row:
        parts.append(f"≥ {row['min']}")
    elif "max" in row:
        parts.append(f"≤ {row['max']}")
    if "maxLength" in row:
        parts.append(f"at most {row['maxLength']} characters")
    if "pattern" in row:
        parts.append(code(row["pattern"]))
    return "; ".join(parts)


def what_it_is(row: Row) -> str:
    default = row.get("platformDefault")
    parts = [
        row["description"],
        *([f"Default: {default}"] if default else []),
        *(["Never printed"] if row.get("sensitive") else []),
    ]
    return ". ".join(parts)


def rules_text(row: Row) -> str:
    if row["type"] == FieldType.ITEMIZED:
        return ", ".join(ITEM_RULES)
    return ", ".join(rules_of(FieldType(row["type"])))


def anchor(path: str) -> str:
    return path.lower().replace(".", "")


def section_of(path: str) -> str:
    head, dot, _ = path.partition(".")
    return head if dot else ""


def home_of(workload_type: str, row: Row) -> str:
    """The roles that have a field; of a field of the whole, nothing."""
    roles = [name for name in row["workloads"][workload_type] if name in ROLES]
    return ", ".join(roles) or "the whole"


# --- pages ---


def has_roles(workload_type: str) -> bool:
    return len(native_places(workload_type)) > 1


def type_page(workload_type: str) -> Iterator[str]:
    kind = NATIVE_KINDS[workload_type]
    rows = native_rows_of(workload_type)
    yield f"# {TITLES[workload_type]}"
    yield ""
    yield (
        f"The fields that a `WorkloadPolicy` for `{workload_type}` can name, in any case. They are"
        f" those of the kind `{kind.kind}` in `{kind.group}/{kind.version}`."
        " What the rules mean is on the page [Rules](rules.md)."
    )
    yield ""
    yield from places(workload_type)
    yield ""
    yield from shipped(workload_type)
    for section, title in SECTIONS.items():
        here = {path: row for path, row in rows.items() if section_of(path) == section}
        if here:
            yield f"## {title}"
            yield ""
            yield from field_table(workload_type, here)
            yield ""
    for path, row in rows.items():
        if row["type"] == FieldType.ITEMIZED:
            yield f"## {path}"
            yield ""
            yield from item_part(path, row)
            yield ""
    yield from spellings(workload_type)


def places(workload_type: str) -> Iterator[str]:
    """Where in the object the fields land."""
    found = native_places(workload_type)
    if not has_roles(workload_type):
        yield "A field lands in `spec`, under the name that it has here: `image` is `spec.image`."
        return
    yield (
        "A name alone is the field of every role that has it, or of the whole. With a role in"
        " front it is that role's."
    )
    yield ""
    yield from table(
        ["In a policy", "In the object"],
        [
            [
                code(f"{name}.image" if name in ROLES else "priorityClass"),
                code(".".join([*place, "image" if name in ROLES else "priorityClass"])),
            ]
            for name, place in found.items()
        ],
    )
    yield ""
    yield ROLE_TEXTS[workload_type]


ROLE_TEXTS = {
    "distributed": (
        "No default makes a `masterSpec`: without one the training has no master, or, with"
        " `masterSpecSameAsWorker`, one that `spec` describes. Rules behind `master.` judge"
        " `masterSpec` only: what holds for such a master too belongs behind `worker.`, or stands"
        " alone."
    ),
    "distributedInference": (
        "A default may begin `leader`, which there always is. None makes a `worker`: with"
        " `workers: 0` there are none."
    ),
}


def shipped(workload_type: str) -> Iterator[str]:
    """What holds for the type before anybody has written a policy."""
    lines = []
    for document in builtin_documents():
        spec = document.spec
        if document.kind != "WorkloadPolicy" or NATIVE_KINDS[workload_type] not in (
            spec.workload_type
        ):
            continue
        defaults = dict(leaves(spec.defaults or {}))
        lines += [
            f"- {code(path)}: default {code(show(value))}" for path, value in defaults.items()
        ]
        for path, value in leaves(spec.rules or {}):
            field, _, rule = path.rpartition(".")
            lines.append(f"- {code(field)}: {code(f'{rule}: {show(value)}')}")
    if lines:
        yield "These hold unless a policy says otherwise:"
        yield ""
        yield from lines
        yield ""


def leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def field_table(workload_type: str, rows: Mapping[str, Row]) -> Iterator[str]:
    roles = has_roles(workload_type)
    head = ["Field", "Type", "What it is", "Values", "Rules"]
    yield from table(
        [*head, "Of"] if roles else head,
        [
            [
                f"[{code(path)}](#{anchor(path)})" if row["type"] == "itemized" else code(path),
                row["type"],
                what_it_is(row),
                values_of(row),
                rules_text(row),
                *([home_of(workload_type, row)] if roles else []),
            ]
            for path, row in rows.items()
        ],
    )


def item_part(path: str, row: Row) -> Iterator[str]:
    yield f"{what_it_is(row)}. The key of an item is `{row['key']}`."
    if row.get("exclusive"):
        yield f"It has one of {codes(row['exclusive'])}, and only one."
    if "assets" in row:
        yield f"Items can be imposed as a `DataSource` with `{row['assets']}`."
    yield ""
    yield from table(
        ["Attribute", "Type", "What it is", "Values", "Rules"],
        [
            [
                code(name),
                attribute["type"],
                what_it_is(attribute),
                "; ".join(filter(None, [needed_text(path, name), values_of(attribute)])),
                rules_text(attribute) if name in row["ruledAttributes"] else "",
            ]
            for name, attribute in row["attributes"].items()
        ]
        + [
            [
                code(name.removeprefix(f"{path}.")),
                "boolean",
                f"{presence['description']}. For rules only",
                "",
                ", ".join(presence["rules"]),
            ]
            for name, presence in native_presences().items()
            if name.startswith(f"{path}.")
        ],
    )


def needed_text(path: str, attribute: str) -> str:
    """Whether every item has *attribute*, or a section of it has."""
    if attribute in NEEDED.get(path, ((), ""))[0] or (path, attribute) in OTHERWISE_NEEDED:
        return "needed"
    section, _, key = attribute.rpartition(".")
    if path == "environmentVariables" and key in VARIABLE_SECTIONS.get(section, ()):
        return f"needed in `{section}`"
    return ""


# What has a condition with words of its own.
OTHERWISE_NEEDED = {("storage.pvc", "claimName")}


def spellings(workload_type: str) -> Iterator[str]:
    rows = native_rows_of(workload_type)
    attributes = {f"{path}.{name}" for path in rows for name in rows[path].get("attributes", ())}
    names = {path.lower() for path in rows}
    found = {
        spelling: name
        for spelling, name in native_spellings().items()
        if name in rows.keys() | attributes and spelling not in names
    }
    if found:
        yield "## Other spellings"
        yield ""
        yield "These are read too, with a warning:"
        yield ""
        yield from table(
            ["Written", "Read as"],
            [[code(spelling), code(name)] for spelling, name in found.items()],
        )


def rules_page() -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield (
        "What a `WorkloadPolicy` can ask of a field depends on the type of its values. A rule that"
        " a type does not have is an error, and `gatewright lint` lists the ones it has."
    )
    yield ""
    yield from table(
        ["Type", "Values", "Example", "Rules"],
        [[kind.value, *TYPE_TEXTS[kind], rules_text({"type": kind})] for kind in TYPE_TEXTS],
    )
    yield ""
    taken = {
        rule for kind in TYPE_TEXTS if kind is not FieldType.ITEMIZED for rule in rules_of(kind)
    }
    rules = {rule: texts for rule, texts in RULE_TEXTS.items() if rule in taken}
    yield from table(
        ["Rule", "Asks for", "How to write it"],
        [[code(rule), *texts] for rule, texts in rules.items()],
    )
    yield ""
    yield (
        "`canEdit`, `blocked`, `min`, `max`, `step`, `options` and `pattern` say nothing about an"
        " absent field: combine them with `required`. What is not said is allowed: `canEdit` is"
        " true, `required` and `blocked` are false."
    )
    yield ""
    yield (
        "On the pages of the types, a `Default` is what the platform takes where a field is absent;"
        " we don't fill it in. The `Values` hold whatever a policy says."
    )
    yield ""
    yield "## Itemized fields"
    yield ""
    yield from item_rules()
    yield ""
    yield "## Where to write what"
    yield ""
    yield (
        "`defaults` and `rules` are trees of the same names. A default is the value itself, a rule"
        " an object:"
    )
    yield ""
    yield "```yaml"
    yield from EXAMPLE.strip().splitlines()
    yield "```"


EXAMPLE = """
defaults:
  imagePullPolicy: Always
  compute:
    gpuDevicesRequest: 1
rules:
  imagePullPolicy: {canEdit: false}
  compute:
    gpuDevicesRequest: {min: 1, max: 8}
"""

ITEM_EXAMPLE = """
defaults:
  compute:
    extendedResources:
      instances:
        - {resource: example.com/nic, quantity: 1}
      attributes:
        quantity: 2
rules:
  compute:
    extendedResources:
      instances: {locked: [example.com/nic]}
      attributes:
        quantity: {required: true}
"""


def item_rules() -> Iterator[str]:
    yield (
        "Items of a workload and of its policies are told apart by the key that the page of the"
        " type names. `instances` speaks of items as a whole, `attributes` of what is in each:"
    )
    yield ""
    yield "```yaml"
    yield from ITEM_EXAMPLE.strip().splitlines()
    yield "```"
    yield ""
    yield (
        "Default `instances` are added; where the workload has an item of the same key, its"
        " attributes count, one by one. Default `attributes` fill every item that lacks the"
        " attribute. An item with `exclude: true` drops the default item of its key."
    )
    yield ""
    yield from table(
        ["Rule of `instances`", "Asks for", "How to write it"],
        [[code(rule), *texts] for rule, texts in ITEM_RULES.items()],
    )
    yield ""
    yield (
        "Attributes are ruled by their type, where the page of the workload type lists rules. What"
        " is *needed* in an item is judged on every native workload, without any policy, and a"
        " policy can't give items that lack it."
    )
    yield ""
    yield (
        "Two items of `storage`, be they of two kinds of it, can't be mounted at one path. In a"
        " workload that is a violation `schema`; policies that give two such items are refused."
        " `/data/` is the path `/data`."
    )


# Those that are about no native type: file, title, and what is in it.
OTHER_PAGES = [
    ("settings.md", "Settings", "flags, variables and the file of `serve` and `reconcile`"),
    ("metrics.md", "Metrics", "every metric, with its type and labels"),
    ("gpu-documents.md", "Documents about GPUs", "every field of GPU policies and their like"),
    ("rules.md", "Rules", "what policies can ask of a field, and how it is written"),
    ("other-kinds.md", "Kinds of others", "where native fields are in kinds that are not ours"),
]


def index_page() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "All of it is made from the code."
    yield ""
    yield from table(
        ["Page", "Says"],
        [[f"[{title}]({file})", text] for file, title, text in OTHER_PAGES],
    )
    yield ""
    yield "## Native workloads"
    yield ""
    yield (
        "What policies can say about each native workload type: every field with its type, its"
        " values, the rules that it takes and where it lands in the object."
    )
    yield ""
    yield from table(
        ["Workload type", "Kind", "Fields"],
        [
            [
                code(name),
                code(NATIVE_KINDS[name].kind),
                f"[{TITLES[name]}]({file})",
            ]
            for name, file in FILES.items()
        ],
    )


def pages() -> dict[str, str]:
    """The text of each file, by name."""
    texts = {"README.md": index_page(), "rules.md": rules_page()}
    texts |= {"settings.md": settings_page(), "metrics.md": metrics_page()}
    texts |= {"gpu-documents.md": gpu_page(), "other-kinds.md": homes_page()}
    texts |= {file: type_page(name) for name, file in FILES.items()}
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in texts.items()}


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text)
        sys.stdout.write(f"{name}\n")
