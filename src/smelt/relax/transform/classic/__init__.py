"""Relax's passes by their classic names: made, then called, `FuseOps()(mod)`."""
