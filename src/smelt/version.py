"""The version of smelt: what artifacts and records say that made them."""

__version__ = VERSION = "0.1.0"
