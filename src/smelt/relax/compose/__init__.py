"""Expressions of the core that the operators of several faces are made of."""
