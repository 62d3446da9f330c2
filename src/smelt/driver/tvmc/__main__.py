"""`python -m smelt.driver.tvmc`."""

from smelt.interrupts import keep_interrupts

from .main import main

if __name__ == "__main__":
    keep_interrupts()
    main()
