"""
Whether a query can select places at all.

In jq only path expressions select places: `path(tojson)` is an error, whatever the object is. That
error comes with the first review of an object, and then with each, so that it had better be seen
when the query is written. What is found here is proved from the text of the query: that all it
yields is of a type that no place has, or was made just now. Whatever isn't understood may select.

A value that jq computes counts as a path where it happens to be the very value that stands there:
`null`, a variable, `. + {}`. Nothing is concluded from those.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webhook.mapping import jq_parts as parts_of
from webhook.mapping.jq_parts import MAY, PASSES, VARIABLE, Part, making
from webhook.mapping.jq_tokens import OPENS, Tokens, UnknownFormError

# In parentheses within one another; a reader calls itself for each.
_MAX_DEPTH = 32


def why_it_selects_nothing(source: str) -> str:
    """
    Why *source*, an expression of jq, can select no place in any object; empty where it may.

    The reason continues a sentence: "it gives text".
    """
    try:
        tokens = Tokens(source)
        whole = _Reader(tokens).read_pipe()
        tokens.expect("end")
    except UnknownFormError:
        return ""
    return whole.selects_nothing


_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_CHANGES = ("=", "|=", "+=", "-=", "*=", "/=", "%=", "//=")


class _Reader:
    """Recursive descent over the tokens, by jq's precedence (`src/parser.y` of 1.8)."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0
        # Whether what is read is given the whole object, which surely is none of its own parts.
        self._at_root = True

    def read_pipe(self) -> Part:
        self._enter()
        parts = [self._read_union()]
        with self._anywhere():
            while self._tokens.accept("|"):
                parts.append(self._read_union())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else parts_of.piped(parts)

    @contextmanager
    def _anywhere(self) -> Iterator[None]:
        """What is read meanwhile may be given any value."""
        at_root, self._at_root = self._at_root, False
        yield
        self._at_root = at_root

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnknownFormError

    def _read_union(self) -> Part:
        parts = [self._read_bound()]
        while self._tokens.accept(","):
            parts.append(self._read_bound())
        return parts[0] if len(parts) == 1 else parts_of.any_of(parts)

    def _read_bound(self) -> Part:
        """`1 + 2 as $three | body`: there is a body to all that is not behind a comma."""
        part = self._read_alternative()
        return self._read_binding(part) if self._tokens.accept_word("as") else part

    def _read_alternative(self) -> Part:
        parts = [self._read_change()]
        while self._tokens.accept("//"):
            parts.append(self._read_change())
        # Which of them it is, the object decides.
        return parts[0] if len(parts) == 1 else parts_of.one_of(parts)

    def _read_change(self) -> Part:
        part = self._read_choice()
        if self._tokens.accept(*_CHANGES):
            self._read_choice()
            # Where nothing is there to be changed, the object is the one that was given.
            return MAY
        return part

    def _read_choice(self) -> Part:
        """`or`, `and` and comparisons: all of them make true or false."""
        part = self._read_sum()
        while self._tokens.accept(*_COMPARISONS) or self._tokens.accept_word("or", "and"):
            self._read_sum()
            part = making(parts_of.BOOLEAN)
        return part

    def _read_sum(self) -> Part:
        part = self._read_product()
        while sign := self._tokens.accept("+", "-"):
            part = parts_of.summed(part, sign, self._read_product())
        return part

    def _read_product(self) -> Part:
        is_negative = False
        while self._tokens.accept("-"):
            is_negative = True
        part = self._read_term()
        if is_negative:
            part = making(parts_of.NUMBER)
        while sign := self._tokens.accept("*", "/", "%"):
            other = self._read_term()
            if sign == "%" or (part.makes == other.makes == parts_of.NUMBER):
                part = making(parts_of.NUMBER)
            else:
                # Of texts a list, of `*` and objects anything.
                part = making(parts_of.LIST) if sign == "/" else MAY
        return part

    def _read_term(self) -> Part:
        part = self._read_head()
        while True:
            if self._tokens.accept("field"):
                part = parts_of.below(part, yields=part.yields)
            elif self._tokens.peek() == "." and self._tokens.peek(1) in ("text", "["):
                self._tokens.take()
            elif self._tokens.accept("text"):
                part = parts_of.below(part, yields=part.yields)
            elif self._tokens.accept("["):
                part = self._read_brackets(part)
            elif self._tokens.accept("?"):
                part = parts_of.may_stop(part)
            else:
                return part

    def _read_binding(self, source: Part) -> Part:
        """`$name | body` and `{key: $name} | body`, behind `as`."""
        if self._tokens.peek() == "variable" and self._tokens.peek(1) == "|":
            self._skip_pattern()
            return parts_of.bound(source, self.read_pipe())
        has_others = self._skip_pattern()
        body = self.read_pipe()
        if has_others or not self._at_root:
            return MAY
        return parts_of.taken_apart(source, body)

    def _read_head(self) -> Part:
        kind, text = self._tokens.take()
        match kind:
            case "." | "recursion":
                return PASSES
            case "field":
                return parts_of.below(PASSES, yields=True)
            case "(":
                part = self.read_pipe()
                self._tokens.expect(")")
                return part
            case "[" | "{":
                self._tokens.skip_to(OPENS[kind])
                return parts_of.literal(parts_of.LIST) if kind == "[" else making(parts_of.OBJECT)
            case "text":
                # There is code in it, which may yield nothing.
                has_code = "\\(" in text
                return making(parts_of.TEXT) if has_code else parts_of.literal(parts_of.TEXT)
            case "format":
                return making(parts_of.TEXT, yields=not self._tokens.accept("text"))
            case "number":
                return parts_of.literal(parts_of.NUMBER)
            case "variable":
                return VARIABLE
            case "word":
                return self._read_word(text)
        raise UnknownFormError

    def _read_word(self, word: str) -> Part:
        match word:
            case "if":
                return self._read_if()
            case "try":
                self._enter()
                parts = [self._read_term()]
                if self._tokens.accept_word("catch"):
                    with self._anywhere():
                        parts.append(parts_of.caught(self._read_term()))
                self._depth -= 1
                return parts_of.one_of(parts)
            case "label":
                self._tokens.expect("variable")
                self._tokens.expect("|")
                return parts_of.may_stop(self.read_pipe())
            case "def" | "reduce" | "foreach" | "import" | "include":
                raise UnknownFormError
        arguments: list[Part] = []
        if self._tokens.accept("("):
            arguments.append(self.read_pipe())
            while self._tokens.accept(";"):
                arguments.append(self.read_pipe())
            self._tokens.expect(")")
        return parts_of.called(word, arguments)

    def _read_if(self) -> Part:
        """`if c then a elif c then b else d end`; without `else` it passes on its input."""
        branches: list[Part] = []
        while True:
            self.read_pipe()
            self._tokens.expect_word("then")
            branches.append(self.read_pipe())
            if not self._tokens.accept_word("elif"):
                break
        branches.append(self.read_pipe() if self._tokens.accept_word("else") else PASSES)
        self._tokens.expect_word("end")
        return parts_of.one_of(branches)

    def _read_brackets(self, part: Part) -> Part:
        """`[]`, `[key]` and `[from:to]`, behind the first bracket."""
        if self._tokens.accept("]"):
            return parts_of.below(part, yields=False)
        if self._tokens.peek() != ":":
            self.read_pipe()
        if self._tokens.accept(":"):
            if self._tokens.peek() != "]":
                self.read_pipe()
            self._tokens.expect("]")
            return making(parts_of.PART)
        self._tokens.expect("]")
        return parts_of.below(part, yields=False)

    def _skip_pattern(self) -> bool:
        """Go behind the bar after what `as` binds. Returns whether there are alternatives to it."""
        has_others = False
        while not self._tokens.accept("|"):
            has_others |= self._tokens.peek() == "?//"
            kind, _ = self._tokens.take()
            if kind in OPENS:
                self._tokens.skip_to(OPENS[kind])
            elif kind == "end":
                raise UnknownFormError
        return has_others
