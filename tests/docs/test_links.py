"""Documents lead to each other: no broken link, and a way to every page from the first one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import (
    DOCS,
    DOCUMENTS,
    HOME,
    LINK,
    PAGES,
    RAW,
    ROOT,
    anchor,
    anchors,
    name,
    prose,
    target,
)

GROUPS = ["Start", "Guides", "Reference", "Inside"]


def test_anchors() -> None:
    assert anchor("`te.compute`, and *more*: a [page](x.md)") == "tecompute-and-more-a-page"


def test_links_and_pictures_are_found() -> None:
    readme = ROOT / "README.md"
    assert LINK.findall("[a](b) ![c](d.png) [![e](f.png)](g)") == ["b", "d.png", "f.png", "g"]
    assert target(readme, f"{RAW}docs/x.png") == (DOCS / "x.png", "")
    assert target(readme, "https://example.test/x.png") is None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        found = target(page, link)
        if found is None:
            continue
        file, place = found
        assert file.exists(), f"{name(page)}: {link}"
        assert not place or place in anchors(file), f"{name(page)}: {link}"


@pytest.mark.parametrize("page", DOCUMENTS, ids=name)
def test_links_stay_inside_of_the_site(page: Path) -> None:
    """The site has the files of docs/; what else the repository has is at home."""
    for link in LINK.findall(prose(page)):
        found = target(page, link)
        if found and not link.startswith(HOME):
            assert found[0].is_relative_to(DOCS), f"{name(page)}: {link}: write {HOME}/blob/main/"


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent == ROOT], ids=name)
def test_links_work_on_any_page(page: Path) -> None:
    """The page of a package shows the README: its links do not depend on where it stands."""
    for link in LINK.findall(prose(page)):
        assert re.match(r"https://|#", link), f"{name(page)}: {link}: write {HOME}/blob/main/"


def test_the_first_page_leads_to_every_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.M) == GROUPS
    found = re.findall(r"^- \[[^\]]+\]\(([\w-]+\.md)\): \S", text, re.M)
    assert sorted(found) == [p.name for p in DOCUMENTS if p.name != "index.md"]


def test_the_site_has_the_groups_of_the_first_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert re.findall(r"^  - (\w+):$", nav, re.M) == GROUPS
    first = (DOCS / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r"^      - ([^:]+): ([\w-]+\.md)$", nav, re.M)
    assert shown == re.findall(r"^- \[([^\]]+)\]\(([\w-]+\.md)\)", first, re.M)


def test_every_picture_is_shown_and_moderate() -> None:
    shown = {
        found[0] for p in PAGES for link in LINK.findall(prose(p)) if (found := target(p, link))
    }
    pictures = sorted((DOCS / "pictures").iterdir())
    assert len(pictures) == 3
    for picture in pictures:
        assert picture in shown, f"{name(picture)} is shown nowhere"
        assert picture.stat().st_size < 250_000, f"{name(picture)}: too large for a page"
