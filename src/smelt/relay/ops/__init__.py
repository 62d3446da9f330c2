"""The bodies of Relay's operators: one function each, written in the core's operators."""

from smelt.ir.tables import import_modules

import_modules(__name__, __path__)
