"""`python -m smelt` is `smelt`."""

from smelt.cli.main import main

main()
