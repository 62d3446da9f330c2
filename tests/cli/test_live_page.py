"""A page that is served: to this machine alone, and nothing but the page."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from smelt.cli.live_page import served


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, ""


def test_the_newest_page_is_served() -> None:
    with served() as page:
        assert page.url.startswith("http://127.0.0.1:")
        page.set("ä")
        asked = [page.asked]
        assert get(page.url) == (200, "ä")
        asked.append(page.asked)
        assert asked == [False, True]
        page.set("b")
        assert get(page.url) == (200, "b")


def test_nothing_else_is_served() -> None:
    with served() as page:
        page.set("a")
        assert get(f"{page.url}etc/passwd") == (404, "")
        assert get(page.url, Host="example.com") == (403, "")
        assert not page.asked


def test_nobody_answers_afterwards() -> None:
    with served() as page:
        pass
    with pytest.raises(urllib.error.URLError):
        get(page.url)
