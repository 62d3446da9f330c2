"""Whether the pages of a built site load anything from elsewhere.

    python scripts/check_site.py build/site

Links that a reader may follow are not loaded, and may lead anywhere.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "input": "src", "link": "href",
    "object": "data", "script": "src", "source": "src", "track": "src", "use": "href",
    "video": "src",
}  # fmt: skip
"""Element -> the attribute whose address a browser loads."""
ELSEWHERE = re.compile(r"\s*(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"@import\s+[\"']([^\"']+)|url\(\s*[\"']?([^\"')]+)", re.IGNORECASE)
ASKING = ('data-md-component="source"', 'class="mermaid"')
"""What makes the scripts of the theme load more: the stars of a repository, diagrams."""


class Page(HTMLParser):
    """The addresses that a page makes a browser load."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.found: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element loads."""
        self.inside = tag
        given = {name: value or "" for name, value in attrs}
        self.found += [given[LOADED[tag]]] if LOADED.get(tag, "") in given else []
        self.found += styled(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Note what a style sheet inside the page loads."""
        if self.inside == "style":
            self.found += styled(data)


def styled(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return [one or other for one, other in IN_STYLE.findall(text)]


def foreign(site: Path) -> list[str]:
    """Every address elsewhere that a page or a style sheet of a site loads, with its file."""
    wrong = []
    for file in sorted(site.rglob("*")):
        if file.suffix not in (".html", ".css"):
            continue
        text = file.read_text(encoding="utf-8")
        addresses = Page(text).found if file.suffix == ".html" else styled(text)
        addresses += [f"// for {mark}" for mark in ASKING if mark in text]
        name = file.relative_to(site).as_posix()
        wrong += [f"{name}: {a}" for a in addresses if ELSEWHERE.match(a)]
    return wrong


def main() -> None:
    """Print what is loaded from elsewhere; exit code 1 where there is something."""
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no site")
    if wrong := foreign(site):
        sys.exit("loaded from elsewhere:\n  " + "\n  ".join(wrong))
    print(f"{site}/index.html: complete, nothing is loaded from elsewhere")


if __name__ == "__main__":
    main()
