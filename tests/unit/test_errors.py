"""The tree that `webhook/errors.py` draws is the one that there is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import webhook
from webhook import errors
from webhook.errors import WebhookError

_INDENT = 4
_DRAWN = re.compile(r"(?P<before>[ │├└─]*)(?P<name>\w+Error)\b")


def drawn() -> dict[str, str]:
    """Each error of the docstring, with the one that it hangs from; empty for the first."""
    above: list[str] = []
    found: dict[str, str] = {}
    tree = (errors.__doc__ or "").split("\n\n")[1]
    for line in tree.splitlines():
        match = _DRAWN.match(line)
        assert match is not None, line
        depth = len(match["before"]) // _INDENT - 1
        del above[depth:]
        found[match["name"]] = above[-1] if above else ""
        above.append(match["name"])
    return found


def told_beside() -> set[str]:
    """The errors that the docstring names below the tree."""
    _, _, below = (errors.__doc__ or "").partition("\nBeside it ")
    return set(re.findall(r"\w+Error\b", below))


def raisable() -> Iterator[type[Exception]]:
    """Every exception of this package that one module may raise to another."""
    for module in pkgutil.walk_packages(webhook.__path__, "webhook."):
        # Importing that runs the command.
        if module.name == "webhook.__main__":
            continue
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            is_ours = one.__module__ == module.name and not one.__name__.startswith("_")
            if is_ours and issubclass(one, Exception):
                yield one


def test_every_error_is_drawn_where_it_hangs() -> None:
    faults = [one for one in raisable() if issubclass(one, WebhookError)]
    parents = {
        one.__name__: "" if one is WebhookError else one.__bases__[0].__name__ for one in faults
    }

    assert drawn() == parents


def test_what_is_outside_of_the_tree_is_named_below_it() -> None:
    """Whoever raises something new has to say whether a person reads it."""
    beside = {one.__name__ for one in raisable() if not issubclass(one, WebhookError)}

    assert told_beside() == beside
