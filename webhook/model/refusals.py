"""A refusal as it is told in the namespace where it happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    Who was refused what, in texts that may be shown to all who may look into *namespace*.

    Refusals with equal texts are one thing that happened several times. *note* names the object,
    *group_note* says the same of any number of objects.
    """

    namespace: str
    note: str
    group_note: str
