"""Tensor programs: nodes, text form, verifier, interpreter, schedules."""
