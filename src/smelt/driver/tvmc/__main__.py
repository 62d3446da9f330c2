"""`python -m smelt.driver.tvmc`."""

from .main import main

if __name__ == "__main__":
    main()
