"""Looking at programs: coloured text in a terminal, pages with loops, steps and footprints."""

from .model_page import Measured, model_page
from .profile import profile_page
from .subject import DisplayError
from .view import html, show

__all__ = ["DisplayError", "Measured", "html", "model_page", "profile_page", "show"]
