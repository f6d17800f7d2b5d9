"""The page of the reference on the settings of `serve` and `reconcile`, made from the options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.reference_parts import code, table
from webhook.settings import ENV_PREFIX, OPTIONS, RECONCILE_OPTIONS, Option


def settings_page() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield (
        "A flag counts before a variable, a variable before the settings file"
        f" (`--config FILE`, `{ENV_PREFIX}CONFIG`), the file before the default. The file is YAML"
        " with the names of the first column, nested at the dots or not; one file may serve both"
        " commands, and a name that neither knows is an error. An empty variable counts as absent."
        " In the chart, most have a value of their own:"
        " [its README](../../charts/gatewright/README.md#values)."
    )
    yield ""
    yield (
        "Switches (`BOOL`) are true where the flag stands alone. Lists are given with commas, as a"
        " flag several times, or as a list in the file; they replace the default. Durations are"
        " written as in Go: `90s`, `10m`, `1h30m`."
    )
    for title, options in (("serve", OPTIONS), ("reconcile", RECONCILE_OPTIONS)):
        yield ""
        yield f"## {title}"
        yield ""
        yield from options_table(options)


def options_table(options: Sequence[Option]) -> Iterator[str]:
    yield from table(
        ["Name", "Flag", "Variable", "Default", "Meaning"],
        [
            [
                code(option.key),
                code(f"{option.flag} {option.metavar}"),
                code(option.variable),
                code(option.default) if option.default else "",
                option.help,
            ]
            for option in options
        ],
    )
