"""Index arithmetic as text for people: `str(e)`, with names of variables where they are given."""

from smelt.ir.expr import text_of as text_of
