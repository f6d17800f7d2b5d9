"""Which keys an expression reads: whether it names all of them, so that its text tells."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from webhook.mapping.jq_tokens import Token, Tokens, UnknownFormError

# Words of jq that reach nothing by a key which isn't spelled out. All others may.
_HARMLESS = frozenset(
    """
    if then elif else end and or not as try reduce foreach label break null true false empty
    error select length utf8bytelength has in type keys keys_unsorted contains inside
    startswith endswith ltrimstr rtrimstr trimstr trim ltrim rtrim split splits join
    ascii_downcase ascii_upcase test match capture scan sub gsub tonumber tostring arrays
    objects strings numbers booleans nulls iterables scalars values first last nth limit min
    max min_by max_by sort sort_by unique unique_by group_by reverse index rindex indices
    floor ceil round sqrt fabs abs pow log any all isnan isinfinite isnormal infinite nan IN
    """.split()  # noqa: SIM905  a list of them is no easier to read
)
# Words that go through all values of what they are given, as `.[]` does.
_ITERATING = frozenset({"add", "map", "flatten"})
# What a term can end with: a bracket behind it looks into it.
_ENDS = frozenset({"field", "text", "variable", "word", ")", "]", "}", "?", "."})
# Words behind which a bracket makes a list.
_BEFORE_TERMS = frozenset({"if", "then", "elif", "else", "and", "or", "as", "try"})


class Reach(IntEnum):
    """
    How an expression comes to its values.

    NAMED: by keys that it spells out, and by indexes. ITEMS: it also takes all items of what
    stands at such a key, which may turn out to be an object, or makes a text of it. ANYTHING: by
    `..`, `to_entries`, a key that is computed and the like.
    """

    NAMED = 0
    ITEMS = 1
    ANYTHING = 2


@lru_cache(maxsize=1024)
def reach_of(source: str) -> Reach:
    """How the expression *source* comes to its values; the wider where that is in doubt."""
    try:
        return _Reader(source).reach()
    except (UnknownFormError, RecursionError):
        return Reach.ANYTHING


class _Reader:
    def __init__(self, source: str) -> None:
        """
        Raises:
            UnknownFormError: a sign is none that jq knows.
        """
        tokens = Tokens(source)
        self._tokens: list[Token] = []
        while tokens.peek() != "end":
            self._tokens.append(tokens.take())
        # The brackets that are open here, innermost last: `{`, `(`, `[` for a list that is made,
        # `.[` for a look into something.
        self._open: list[str] = []
        # Positions of brackets that close something of which each value is an item: a list that
        # was made, or what stands at a key.
        self._named_ends: set[int] = set()
        self._reach = Reach.NAMED

    def reach(self) -> Reach:
        for position in range(len(self._tokens)):
            if not self._takes(position):
                return Reach.ANYTHING
        return self._reach

    def _kind(self, position: int) -> str:
        return self._tokens[position][0] if 0 <= position < len(self._tokens) else ""

    def _text(self, position: int) -> str:
        return self._tokens[position][1] if 0 <= position < len(self._tokens) else ""

    def _takes(self, position: int) -> bool:
        """Whether the token there keeps to what is spelled out."""
        match self._kind(position):
            case "recursion" | "format" | "?//":
                return False
            case "text":
                return self._takes_text(position)
            case "word":
                return self._takes_word(position)
            case "[":
                return self._takes_bracket(position)
            case "{" | "(" as opening:
                self._open.append(opening)
            case "]" | "}" | ")":
                opened = self._open.pop() if self._open else ""
                if opened == "[":
                    self._named_ends.add(position)
        return True

    def _is_key(self, position: int) -> bool:
        """Whether it is a key in `{}`."""
        return self._open[-1:] == ["{"] and self._kind(position - 1) in ("{", ",")

    def _takes_text(self, position: int) -> bool:
        codes = _codes(self._text(position)[1:-1])
        is_key = self._is_key(position) or self._kind(position - 1) == "."
        if is_key and "\\" in self._text(position):
            return False
        if codes:
            self._reach = Reach.ITEMS
        return all(reach_of(code) is not Reach.ANYTHING for code in codes)

    def _takes_word(self, position: int) -> bool:
        word = self._text(position)
        if self._is_key(position):
            return True
        if word == "as":
            return self._kind(position + 1) == "variable"
        if word in _ITERATING or word == "tostring":
            self._reach = Reach.ITEMS
        if word in _ITERATING:
            return self._follows_a_key(position)
        return word in _HARMLESS

    def _takes_bracket(self, position: int) -> bool:
        before = self._kind(position - 1)
        if before not in _ENDS or self._text(position - 1) in _BEFORE_TERMS:
            self._open.append("[")
            return True
        self._open.append(".[")
        if self._kind(position + 1) == "]":
            self._reach = Reach.ITEMS
            return self._follows_a_key(position)
        inside = [self._tokens[at] for at in range(position + 1, self._end_of(position))]
        match inside:
            case [("text", text)]:
                self._named_ends.add(position + 2)
                return "\\" not in text
            # A policy names the key, which tells what it is.
            case [("variable", "$ARGS"), ("field", ".named"), ("field", ".key")]:
                return True
            case _:
                return all(kind in ("number", "-", ":") for kind, _ in inside)

    def _end_of(self, position: int) -> int:
        depth = 0
        for at in range(position, len(self._tokens)):
            depth += self._kind(at) in ("[", "{", "(")
            depth -= self._kind(at) in ("]", "}", ")")
            if depth == 0:
                return at
        raise UnknownFormError

    def _follows_a_key(self, position: int) -> bool:
        """Whether what stands before is the value at a key, or a list that was made."""
        position -= 1
        while self._kind(position) in (".", "?", "|"):
            position -= 1
        if self._kind(position) == "text":
            return self._kind(position - 1) == "."
        return self._kind(position) == "field" or position in self._named_ends


def _codes(text: str) -> list[str]:
    """The pieces of code that the inside of a text holds."""
    codes: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "\\":
            position += 1
        elif text[position + 1 : position + 2] != "(":
            position += 2
        else:
            begin = position + 2
            position = _code_end(text, begin)
            codes.append(text[begin:position])
    return codes


def _code_end(text: str, position: int) -> int:
    """Where the parenthesis stands that closes the code which begins there."""
    open_ones = [")"]
    while position < len(text):
        sign = text[position]
        if open_ones[-1] == '"':
            if sign == "\\":
                position += 1
                if text[position : position + 1] == "(":
                    open_ones.append(")")
            elif sign == '"':
                open_ones.pop()
        elif sign == '"':
            open_ones.append(sign)
        elif sign == "(":
            open_ones.append(")")
        elif sign == ")":
            open_ones.pop()
            if not open_ones:
                return position
        position += 1
    raise UnknownFormError
