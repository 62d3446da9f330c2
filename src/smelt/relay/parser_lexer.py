"""The words of a Relay text, and the errors that show places in it."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, NoReturn, TypeVar

from smelt.ir.errors import ParseError
from smelt.runtime.errors import closest

from .metadata import MARK
from .printer_words import SUFFIXES

T = TypeVar("T")

DEPTH = 100
"""How deeply brackets may be nested: deeper texts are refused before anything is built."""

_NAME = r"[A-Za-z_]\w*"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_WORDS = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<comment>/\*)"
    rf"|(?P<mark>{re.escape(MARK)})"
    rf"|(?P<var>%(?:{_NAME}|\d+|{_QUOTED}))"
    rf"|(?P<global>@(?:{_NAME}(?:\.{_NAME})*|{_QUOTED}))"
    rf"|(?P<name>{_NAME}(?:\.{_NAME})*)"
    r"|(?P<number>(?:\d+\.\d*|\d+)(?:[eE][+-]?\d+)?(?P<suffix>\w*))"
    r"|(?P<item>\.\d+)"
    rf"|(?P<string>{_QUOTED})"
    r"|(?P<sign>#\[|->|=>|==|!=|<=|>=|[()\[\]{},;:=+\-*/<>?])",
    re.ASCII,
)
_COMMENT = re.compile(r"/\*|\*/")
_CLOSING = {"(": ")", "[": "]", "{": "}", "#[": "]"}
_KNOWN_SUFFIXES = frozenset({*SUFFIXES.values(), "f16", "f32", "i32"})


class Token(NamedTuple):
    """One word.

    kind   var, global, name, number, item (.0), string, sign or end
    text   as it stands there
    start  where it begins, in characters of the whole
    """

    kind: str
    text: str
    start: int


class Text:
    """A text being read, for the places in errors."""

    def __init__(self, text: str, path: str) -> None:
        """Remember it; path is what errors call it."""
        self.text, self.path = text, path
        self._lines: list[int] | None = None

    def place(self, start: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        if self._lines is None:
            self._lines = [0, *[m.end() for m in re.finditer("\n", self.text)]]
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    def error(self, start: int, width: int, message: str, legal: str = "") -> NoReturn:
        """Raise a ParseError that shows the place, and says what would be legal there."""
        line, column = self.place(start)
        assert self._lines is not None
        begin = self._lines[line - 1]
        end = self.text.find("\n", begin)
        whole = self.text[begin : len(self.text) if end < 0 else end].rstrip("\r")
        first = max(0, column - 81)
        shown = whole[first : first + 160]
        at = column - 1 - first
        width = max(1, min(width, len(shown) - at))
        lines = [
            f"{self.path}:{line}:{column}: {message}",
            f"  {shown}",
            f"  {' ' * at}{'^' * width}",
        ]
        raise ParseError("\n".join([*lines, f"  legal: {legal}"] if legal else lines))

    def fail(self, message: str) -> NoReturn:
        """Raise a ParseError about the whole."""
        raise ParseError(f"{self.path}: {message}")


def near(name: str, known: Iterable[str], sign: str = "") -> str:
    """The names closest to one that is not known, else all if they are few."""
    known = list(known)
    found = closest(name, known) or (known if len(known) <= 8 else [])
    return ", ".join([sign + f for f in found])


def tokens_of(text: Text) -> tuple[list[Token], dict[int, int], str | None]:
    """The words, the number of the closing bracket for each opening one's, and the metadata.

    Comments /* */ may be nested. Words end where the metadata begins.
    """
    source, at = text.text, 0
    tokens: list[Token] = []
    pairs: dict[int, int] = {}
    open_: list[int] = []
    while at < len(source):
        m = _WORDS.match(source, at)
        if m is None:
            _unknown(text, at)
        kind, word, start = str(m.lastgroup), m.group(), at
        at = m.end()
        if kind == "comment":
            at = _behind_comment(text, start)
            continue
        if kind == "mark":
            break
        if kind == "space":
            continue
        if kind == "number":
            suffix = m.group("suffix")
            if suffix not in _KNOWN_SUFFIXES:
                text.error(start, len(word), f"the number {word} ends in {suffix!r}",
                           ", ".join(sorted(_KNOWN_SUFFIXES - {""})))  # fmt: skip
        elif kind == "sign":
            _pair(text, tokens, pairs, open_, Token(kind, word, start))
        tokens.append(Token(kind, word, start))
    else:
        m = None
    if open_:
        token = tokens[open_[-1]]
        text.error(token.start, len(token.text), f"{token.text!r} is never closed")
    tokens.append(Token("end", "", len(source) if m is None else m.start()))
    return tokens, pairs, None if m is None else source[m.end() :]


def _pair(
    text: Text, tokens: list[Token], pairs: dict[int, int], open_: list[int], token: Token
) -> None:
    """Brackets have to match, and not to be nested too deeply."""
    if token.text in _CLOSING:
        if len(open_) >= DEPTH:
            text.error(token.start, 1, f"more than {DEPTH} brackets are open here",
                       "name inner values: %0 = ...;")  # fmt: skip
        open_.append(len(tokens))
    elif token.text in _CLOSING.values():
        if not open_:
            text.error(token.start, 1, f"{token.text!r} closes nothing")
        first = tokens[open_[-1]]
        if _CLOSING[first.text] != token.text:
            line, column = text.place(first.start)
            text.error(token.start, 1, f"{token.text!r} does not close {first.text!r} of line "
                       f"{line}, column {column}", _CLOSING[first.text])  # fmt: skip
        pairs[open_.pop()] = len(tokens)


def _behind_comment(text: Text, start: int) -> int:
    """Where a comment ends, those in it counted."""
    depth, at = 0, start
    while True:
        m = _COMMENT.search(text.text, at)
        if m is None:
            text.error(start, 2, "the comment is never closed", "*/")
        depth += 1 if m.group() == "/*" else -1
        at = m.end()
        if depth == 0:
            return at


def _unknown(text: Text, at: int) -> NoReturn:
    c = text.text[at]
    if c == '"':
        text.error(at, 1, "the text in quotes does not end in this line", '"')
    if c in "%@":
        text.error(at, 1, f"a name has to follow {c}", f'{c}x, {c}"any text"')
    if c == "#":
        text.error(at, 1, "'#' begins a line about the text", f"#[version = ...], {MARK}")
    text.error(at, 1, f"the character {c!r} means nothing here")


class Cursor:
    """Words one by one."""

    def __init__(self, text: Text, tokens: list[Token], pairs: dict[int, int]) -> None:
        """Begin at the first."""
        self.text, self.tokens, self.pairs, self.at = text, tokens, pairs, 0

    @property
    def token(self) -> Token:
        """The next word."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """The next word, which is left behind."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether the next word is one of these signs or names."""
        token = self.tokens[self.at]
        return token.text in words and token.kind in ("sign", "name")

    def behind(self, word: str) -> bool:
        """Whether the word after the next one is this sign."""
        token = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        return token.kind == "sign" and token.text == word

    def takes(self, *words: str) -> bool:
        """Leave one of these words behind, if it is the next."""
        found = self.sees(*words)
        self.at += found
        return found

    def expect(self, word: str, where: str) -> Token:
        """Leave a word behind that has to be there."""
        if not self.sees(word):
            self.wrong(f"expected {word!r} {where}")
        return self.next()

    def wrong(self, message: str, legal: str = "") -> NoReturn:
        """Raise an error at the next word."""
        token = self.token
        found = f"{token.text!r}" if token.kind != "end" else "the end of the text"
        self.error(token, f"{message}, found {found}", legal)

    def error(self, token: Token, message: str, legal: str = "") -> NoReturn:
        """Raise an error at a word."""
        self.text.error(token.start, len(token.text), message, legal)

    def name(self, token: Token) -> str:
        """What a variable, a function or a text in quotes is called."""
        word = token.text if token.kind == "string" else token.text[1:]
        if not word.startswith('"'):
            return word
        try:
            return str(json.loads(word))
        except ValueError as e:
            self.error(token, f"the text in quotes is not legal: {e}")

    def separated(self, closing: str, where: str) -> Iterable[int]:
        """The items up to a closing bracket, with commas between them: yields their numbers."""
        n = 0
        while not self.takes(closing):
            yield n
            n += 1
            if not self.sees(closing):
                if not self.sees(","):
                    self.wrong(f"expected ',' or {closing!r} {where}")
                self.next()

    def listed(self, opening: str, item: Callable[[], T], where: str) -> list[T]:
        """Items in brackets with commas between them; none where no bracket is."""
        if not self.takes(opening):
            return []
        return [item() for _ in self.separated(_CLOSING[opening], where)]

    def infix(
        self, first: T, operand: Callable[[], T], strength: Mapping[str, int],
        combine: Callable[[Token, T, T], T],
    ) -> T:  # fmt: skip
        """Operands with signs between them; the stronger binds first, of equals the left one.

        first    the operand that has been read
        operand  reads one more
        combine  (sign, left, right) -> what stands for them
        """
        operands, signs = [first], list[Token]()

        def join() -> None:
            right, left = operands.pop(), operands.pop()
            operands.append(combine(signs.pop(), left, right))

        while self.sees(*strength):
            sign = self.next()
            while signs and strength[signs[-1].text] >= strength[sign.text]:
                join()
            signs.append(sign)
            operands.append(operand())
        while signs:
            join()
        return operands[0]

    def in_brackets(self, item: Callable[[], T], where: str) -> tuple[list[T], bool]:
        """What stands up to ")", with commas between, and whether the last one has a comma."""
        items = [item() for _ in self.separated(")", f"in {where}")]
        return items, bool(items) and self.tokens[self.at - 2].text == ","
