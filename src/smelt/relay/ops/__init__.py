"""The bodies of Relay's operators: one function each, written in the core's operators."""

from . import broadcast, create, nn, nn_window, reduce, transform, unary

__all__ = ["broadcast", "create", "nn", "nn_window", "reduce", "transform", "unary"]
