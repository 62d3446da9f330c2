"""Programs in a terminal: colours where it has some, the plain text elsewhere."""

from __future__ import annotations

import os

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from .tokens import Kind, tokens

_COLOURS: dict[Kind, tuple[str, str]] = {
    "keyword": ("bright_magenta", "magenta"),
    "builtin": ("bright_cyan", "blue"),
    "number": ("bright_yellow", "red"),
    "string": ("bright_green", "green"),
    "comment": ("bright_black", "bright_black"),
    "note": ("bold bright_red", "bold red"),
}
"""The terminal's own sixteen colours, of which some cannot be read on white: on dark, on light."""

THEMES: dict[str, dict[Kind, str]] = {
    theme: {kind: colours[n] for kind, colours in _COLOURS.items()}
    for n, theme in enumerate(("dark", "light"))
}
_LEXERS = {"llvm": "llvm", "asm": "gas"}
_COLOURED = 1 << 20  # characters; in more than that nobody reads, and colouring takes long


def print_text(text: str, language: str, theme: str | None) -> None:
    """Print a text; without colours it is left as it is, so that it can be read back.

    language  "python", "llvm" or "asm"
    theme     one of THEMES; None: what COLORFGBG says of the terminal's background, else dark
    """
    text = text.rstrip("\n")
    console = Console(soft_wrap=True)
    if console.color_system is None or console.no_color or len(text) > _COLOURED:
        print(text)
        return
    # COLORFGBG ends in the number of the background's colour.
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    chosen = theme or ("light" if background in ("7", "15") else "dark")
    shown = (
        _coloured(text, THEMES[chosen])
        if language == "python"
        else Syntax("", _LEXERS[language], theme=f"ansi_{chosen}", tab_size=8).highlight(text)
    )
    shown.rstrip()
    console.print(shown, highlight=False)


def _coloured(text: str, styles: dict[Kind, str]) -> Text:
    shown = Text()
    for line in text.split("\n"):
        for kind, part in tokens(line):
            shown.append(part, None if kind is None else styles[kind])
        shown.append("\n")
    return shown
