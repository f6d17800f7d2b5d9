"""The words and signs of an expression of jq, read one after the other."""

from __future__ import annotations

import re


class UnknownFormError(Exception):
    """The expression has a form that is not looked into."""


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\r\n]+|\#[^\n]*)
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<recursion>\.\.)
    | (?P<field>\.{_NAME})
    | (?P<variable>\${_NAME})
    | (?P<format>@[A-Za-z0-9_]+)
    | (?P<word>{_NAME})
    | (?P<mark>\?//|//=|//|[|+*/%-]=|[=!<>]=|[][(){{}}?,|.;:=<>+*/%-])
    """,
    re.VERBOSE,
)

OPENS = {"(": ")", "[": "]", "{": "}"}

# Kind and text. A mark is its own kind; the last token is ("end", "").
Token = tuple[str, str]


def _read_tokens(source: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        if source[position] == '"':
            end = _text_end(source, position)
            tokens.append(("text", source[position:end]))
            position = end
            continue
        match = _TOKEN.match(source, position)
        if match is None or match.lastgroup is None:
            raise UnknownFormError
        position = match.end()
        if match.lastgroup != "space":
            kind = match[0] if match.lastgroup == "mark" else match.lastgroup
            tokens.append((kind, match[0]))
    return [*tokens, ("end", "")]


def _text_end(source: str, begin: int) -> int:
    """The position behind the text that begins there; there may be code in it."""
    open_ones = ['"']
    position = begin + 1
    while open_ones:
        if position >= len(source):
            raise UnknownFormError
        sign = source[position]
        if open_ones[-1] == '"':
            if sign == "\\":
                if source[position + 1 : position + 2] == "(":
                    open_ones.append(")")
                position += 1
            elif sign == '"':
                open_ones.pop()
        elif sign == "#":
            position = source.find("\n", position) % (len(source) + 1)
        elif sign == '"':
            open_ones.append(sign)
        elif sign in OPENS:
            open_ones.append(OPENS[sign])
        elif sign == open_ones[-1]:
            open_ones.pop()
        position += 1
    return position


class Tokens:
    """The tokens of *source*, and the one that is next."""

    def __init__(self, source: str) -> None:
        """
        Raises:
            UnknownFormError: a sign is none that jq knows.
        """
        self._tokens = _read_tokens(source)
        self._position = 0

    def skip_to(self, closing: str) -> None:
        """Go behind the bracket that closes the one that was taken. Vetting has matched them."""
        open_ones = [closing]
        while open_ones:
            kind, _ = self.take()
            if kind in OPENS:
                open_ones.append(OPENS[kind])
            elif kind == open_ones[-1]:
                open_ones.pop()
            elif kind == "end":
                raise UnknownFormError

    def peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)][0]

    def take(self) -> Token:
        token = self._tokens[min(self._position, len(self._tokens) - 1)]
        self._position += 1
        return token

    def accept(self, *kinds: str) -> str:
        """The kind that was taken; empty if it is none of *kinds*."""
        kind = self.peek()
        if kind not in kinds:
            return ""
        self._position += 1
        return kind

    def accept_word(self, *words: str) -> bool:
        kind, text = self._tokens[min(self._position, len(self._tokens) - 1)]
        if kind != "word" or text not in words:
            return False
        self._position += 1
        return True

    def expect(self, kind: str) -> None:
        if not self.accept(kind):
            raise UnknownFormError

    def expect_word(self, word: str) -> None:
        if not self.accept_word(word):
            raise UnknownFormError
