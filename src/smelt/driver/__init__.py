"""The classic driver: `python -m smelt.driver.tvmc`, and the same from Python."""
