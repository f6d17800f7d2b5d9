"""What can be told of the parts of a query: whether a place can be among their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

TEXT = "it gives text"
NUMBER = "it gives numbers"
BOOLEAN = "it gives true or false"
LIST = "it gives lists that it makes"
OBJECT = "it gives objects that it makes"
PART = "a part of a list is no place"
NOTHING = "it selects nothing"
LOST = "taking a value apart behind `as` makes jq lose the place"

# Functions by name and number of arguments, whose results no place can be.
_MAKES: Mapping[tuple[str, int], str] = {
    (name, count): why
    for why, names in {
        TEXT: "tojson/0 tostring/0 type/0 ascii_downcase/0 ascii_upcase/0 join/1 implode/0",
        NUMBER: "length/0 utf8bytelength/0 tonumber/0 floor/0 ceil/0 round/0 sqrt/0",
        BOOLEAN: "not/0 has/1 contains/1 inside/1 in/1 test/1 test/2 startswith/1 endswith/1"
        " any/0 any/1 any/2 all/0 all/1 all/2 isempty/1 IN/1 IN/2 true/0 false/0",
        LIST: "keys/0 keys_unsorted/0 to_entries/0 map/1 explode/0 split/1 split/2 path/1 paths/0"
        " paths/1 tostream/0 sort/0 sort_by/1 group_by/1 unique/0 unique_by/1 reverse/0",
        OBJECT: "from_entries/0 with_entries/1",
        NOTHING: "empty/0 error/0 error/1",
    }.items()
    for name, count in [(one.partition("/")[0], int(one[-1])) for one in names.split()]
}
# Those among them without arguments that may yield nothing. With arguments any may.
_MAY_YIELD_NOTHING = frozenset({"empty", "paths", "tostream"})
# Functions that pass on what they are given, or what is below it, or nothing.
_FILTERS = frozenset(
    {
        *(("select", 1), ("values", 0), ("nulls", 0), ("objects", 0), ("arrays", 0)),
        *(("iterables", 0), ("scalars", 0), ("recurse", 0), ("first", 0), ("last", 0)),
    }
)
# Functions that pass on what one of their arguments yields, and which.
_GENERATORS: Mapping[tuple[str, int], int] = {("first", 1): 0, ("limit", 2): 1, ("skip", 2): 1}

# Why the output can be no place, for the same of the input; empty: it may be one.
_Verdict = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of a query.

    *of* tells of its output. *makes* is why neither that nor anything below it can be a place,
    whatever the input is. *fails*: whatever the input is, a query that ends with this part yields
    nothing for it, or fails. *yields*: for each input there surely is an output, or the query
    fails. A part with both makes what stands beside it fail too. All of the output *is_within* the
    input, the same or a part of it, or *is_below* it.
    """

    of: _Verdict
    makes: str = ""
    fails: str = ""
    yields: bool = False
    is_within: bool = False
    is_below: bool = False

    @property
    def selects_nothing(self) -> str:
        """Why a query that ends with this part selects nothing in any object; empty: it may."""
        return self.fails or self.of("")


# Passes on its input, or what is below it.
PASSES = Part(lambda given: given, yields=True, is_within=True)
# Passes on some of it.
FILTERS = Part(lambda given: given, is_within=True)
MAY = Part(lambda _: "")
VARIABLE = Part(lambda _: "", yields=True)


def making(why: str, *, yields: bool = False) -> Part:
    """What gives values that it computes."""
    return Part(lambda _: why, why, yields=yields)


def literal(why: str) -> Part:
    """One value that is made then and there, so that no value of the object is the very same."""
    return Part(lambda _: why, why, why, yields=True)


def called(name: str, arguments: Sequence[Part]) -> Part:
    """A call of one of jq's own functions."""
    function = name, len(arguments)
    if function in _MAKES:
        yields = not arguments and name not in _MAY_YIELD_NOTHING
        return making(_MAKES[function], yields=yields)
    if function in _FILTERS:
        return FILTERS
    if function in _GENERATORS:
        return Part(arguments[_GENERATORS[function]].of)
    return MAY


def piped(parts: Sequence[Part]) -> Part:
    def verdict(given: str) -> str:
        for part in parts:
            given = part.of(given)
        return given

    # Where the beginning yields nothing, the end does not fail.
    yields = all(part.yields for part in parts)
    return Part(verdict, parts[-1].makes, parts[-1].fails, yields)


def any_of(parts: Sequence[Part]) -> Part:
    """All of them are yielded: where one fails, the whole does."""
    whole = one_of(parts)
    fails = next((part.fails for part in parts if part.fails and part.yields), "")
    if all(part.fails for part in parts):
        fails = parts[0].fails
    return Part(whole.of, whole.makes, fails, any(part.yields for part in parts))


def one_of(parts: Sequence[Part]) -> Part:
    """A place if any of them may be one."""

    def verdict(given: str) -> str:
        reasons = [part.of(given) for part in parts]
        return reasons[0] if all(reasons) else ""

    makes = {part.makes for part in parts}
    return Part(verdict, makes.pop() if len(makes) == 1 else "")


def below(part: Part, *, yields: bool) -> Part:
    """What is below a value that was made is no place either."""
    is_below = part.is_within or part.is_below
    return Part(part.of, yields=yields, is_below=is_below)


def may_stop(part: Part) -> Part:
    """What comes to an end, without an error, before all of *part* has been yielded."""
    return replace(part, fails="", yields=False)


def caught(part: Part) -> Part:
    """What is done with an error: it may be any value that was thrown, a place too."""
    return Part(lambda _: part.of(""), part.makes)


def bound(source: Part, body: Part) -> Part:
    """`source as $name | body`: there is no *body* where there is no *source*."""
    return Part(body.of, body.makes, body.fails, source.yields and body.yields)


def taken_apart(source: Part, body: Part) -> Part:
    """
    `source as {key: $name} | body`, where the input is the whole object.

    jq goes from there to the key, and fails if *source* gives anything but the very input. What
    stands at the key is a place afterwards, in a variable; the input is none any more.
    """
    if source.is_below:
        return Part(lambda _: LOST, fails=LOST, yields=source.yields)
    return Part(lambda _: body.of(LOST))


def summed(one: Part, sign: str, other: Part) -> Part:
    """What is empty, or null, leaves the other operand the very value that it was."""
    for makes in (TEXT, NUMBER) if sign == "+" else (NUMBER,):
        if makes in (one.makes, other.makes):
            return making(makes)
    return making(one.makes) if one.makes in (LIST, OBJECT) else MAY
