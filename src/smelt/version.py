"""The version of smelt: what artifacts and records say that made them."""

VERSION = "0.1.0"
