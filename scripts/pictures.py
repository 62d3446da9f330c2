"""The pictures of the README, docs/pictures/*.png: a model's page, a kernel of it, a terminal.

What is shown is what the commands write, for the ResNet-18 of `smelt demo`. `make pictures` runs
this. It takes the Chromium of the machine; where there is none, Playwright installs one.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from PIL import Image
from playwright.sync_api import Browser, Error, Locator, Page, Playwright, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

import smelt
from smelt.cli.inputs import random_inputs
from smelt.cli.profile import profiled
from smelt.cli.resnet import resnet18
from smelt.display import Measured, model_page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MODEL = "resnet18.onnx"
KERNEL = "stage2.2.1.conv"  # a node of the kernel that is shown
LOOP = "kh"  # the loop of it that the pointer is at
COMMAND = f"smelt check {MODEL}"
COLUMNS = 84
TRIES = 20  # until the machine is quiet while the model is timed
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>{stylesheet}
body {{ margin: 0; background: #fdfdfc; color: #1d1d1f }}
pre {{ margin: 0; padding: 20px 24px; width: max-content; font: 16px/18px "DejaVu Sans Mono",
monospace }}</style><pre>{code}</pre>"""


def measured(model: str) -> Measured:
    """The times of a model on one core, of the steadiest runs."""
    exe = smelt.compile(model, options=smelt.Options(threads=1))
    inputs = random_inputs(exe.inputs)
    found = []
    for _ in range(TRIES):
        report, limits = profiled(exe, inputs, 1)
        notes = report.notes(limits)
        found.append((report.total, notes, Measured(report, limits, exe.memory)))
        if not notes:
            break
    _, notes, best = min(found, key=lambda f: f[0])
    if notes:
        print("the machine was busy: the times in the pictures are those of a busy machine")
    return best


def browser(playwright: Playwright) -> Browser:
    """The machine's Chromium, or Playwright's."""
    own = next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        return playwright.chromium.launch(executable_path=own)
    except Error:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
        return playwright.chromium.launch()


def take(shown: Page | Locator, name: str) -> None:
    """Write what is shown, with as many colours as a picture of text needs."""
    picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
    file = FOLDER / f"{name}.png"
    picture.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file.name}: {picture.width} x {picture.height}, {file.stat().st_size / 1e3:.0f} kB")


def terminal(folder: Path) -> str:
    """What the command prints, as a page."""
    shown = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    own = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    words = [sys.executable, "-m", "smelt.cli.main", *COMMAND.split()[1:]]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=True
    )
    shown.print(Text.assemble(("$ ", "bright_black"), (COMMAND, "bold")))
    shown.print(Text.from_ansi(done.stdout.rstrip()))
    return shown.export_html(theme=DEFAULT_TERMINAL_THEME, code_format=TERMINAL)


def main() -> None:
    """Make all of them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        model, written = str(folder / MODEL), folder / "resnet18.html"
        onnx.save(resnet18(), model)
        model_page(model, written, measured=measured(model), options=smelt.Options(threads=1))
        chromium = browser(playwright)
        page = chromium.new_page(
            viewport={"width": 1440, "height": 900}, device_scale_factor=1.5, color_scheme="light"
        )
        page.goto(written.as_uri())
        row = page.locator("#kernels tbody tr", has_text=KERNEL)
        take(page, "model")

        row.locator("a").click()
        page.locator("#opened .panes").wait_for()
        page.evaluate("document.activeElement.blur(); opened.querySelector('h2').scrollIntoView()")
        page.locator(f"#opened summary > b:text-is('{LOOP}')").hover()
        take(page, "kernel")

        page.set_content(terminal(folder))
        take(page.locator("pre"), "terminal")
        chromium.close()


if __name__ == "__main__":
    main()
