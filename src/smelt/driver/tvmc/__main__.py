"""`python -m smelt.driver.tvmc`."""

from smelt.cli.main import main

if __name__ == "__main__":
    main("smelt.driver.tvmc.main")
