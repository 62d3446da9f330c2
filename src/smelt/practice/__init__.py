"""Learning the tensor level by running it: `python -m smelt.practice te_basics`, and so on.

Five phases, each a program of its own that explains itself and measures what it claims.
"""
