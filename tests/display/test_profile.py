"""The page of a profile."""

from __future__ import annotations

import re

from smelt.display import profile_page
from smelt.runtime import KernelTime, ProfileReport
from smelt.runtime.kernel_times import ProfiledRun
from smelt.runtime.limits import Bandwidth, MachineLimits
from tests.display.dom import read

EVIL = '<script src="//x">&\'"</script>'
LEVELS = (Bandwidth("L1", 1 << 15, 50.0), Bandwidth("memory", 1 << 27, 5.0))
LIMITS = MachineLimits(10.0, 5.0, LEVELS, ((8.0, 5.0), (10.0, 5.0)), 1)


def made() -> ProfileReport:
    """Two kernels; all that models name is hostile."""
    kernels = (
        KernelTime("small", ("relu",), 1, 0.5, None, None, ()),
        KernelTime(EVIL, (EVIL,), 1, 1.5, 30_000_000, 1000, (EVIL, "last")),
    )
    return ProfileReport.of(EVIL, kernels, [ProfiledRun(2.5, (0.5, 1.5), (0, 600_000))])


def test_the_page_has_every_kernel_with_whole_names() -> None:
    root = read(profile_page(made(), LIMITS))
    rows = root.find("tr")
    heads = [h.text for h in rows[0].find("th")]
    assert heads == ["kernel", "ms", "% of the run", "calls", "GFLOP/s", "GB/s", "% of the limit",
                     "limit of", "operators", "nodes"]  # fmt: skip
    cells = [c.text for c in rows[1].find("td")]
    assert cells == [EVIL, "1.5000", "60.0", "1", "20.0", "0.0", "200.0*", "arithmetic", EVIL,
                     f"{EVIL}, last"]  # fmt: skip
    assert [c.text for c in rows[2].find("td")][4:8] == ["", "", "0.0", "arithmetic"]
    said = " ".join([p.text for p in root.find("p", "hint")])
    assert "the limit moved between 8 and 10 GFLOP/s" in said
    assert "above the limit" in said
    assert root.find("title")[0].text == f"Profile of {EVIL}"


def test_names_become_no_markup_and_nothing_is_loaded() -> None:
    text = profile_page(made(), LIMITS)
    assert text.count("<script") == 1
    assert "default-src 'none'" in read(text).find("meta")[3].attributes["content"]
    assert not re.search(r"(src|href|url\()=?[\"']?(https?:)?//", text.replace(EVIL, ""))


def test_sorting_has_a_number_for_every_figure() -> None:
    root = read(profile_page(made(), LIMITS))
    for row in root.find("tr")[1:]:
        numbers = [c.attributes.get("data-value") for c in row.find("td", "amount")]
        assert len(numbers) == 6
        assert all(float(n or "x") >= -1 for n in numbers)
    assert all(h.find("button") for h in root.find("th"))


def test_without_limits_there_are_no_columns_for_them() -> None:
    root = read(profile_page(made()))
    assert "limit of" not in [h.text for h in root.find("th")]
