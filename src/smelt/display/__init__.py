"""Looking at programs: coloured text in a terminal, pages with loops, steps and footprints."""

from .profile import profile_page
from .subject import DisplayError
from .view import html, show

__all__ = ["DisplayError", "html", "profile_page", "show"]
