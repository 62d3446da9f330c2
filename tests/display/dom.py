"""A page as a tree: strict enough that what is not well formed does not pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "input", "br"}


@dataclass
class Element:
    """A tag with its attributes, elements and texts."""

    tag: str
    attributes: dict[str, str]
    content: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for c in self.content:
            if isinstance(c, Element):
                yield from c.walk()

    def find(self, tag: str = "", of: str = "") -> list[Element]:
        """All elements below with this tag and this class."""
        return [
            e
            for e in self.walk()
            if (not tag or e.tag == tag) and (not of or of in e.attributes.get("class", "").split())
        ]

    @property
    def text(self) -> str:
        return "".join([c if isinstance(c, str) else c.text for c in self.content])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        element = Element(tag, {k: v or "" for k, v in attrs})
        self.open[-1].content.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def read(text: str) -> Element:
    """The tree of a page; asserts that every tag is closed where it should be."""
    assert text.startswith("<!DOCTYPE html>\n")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is not closed"
    return reader.root
