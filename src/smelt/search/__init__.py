"""The search engine: decisions of sketches scored, built, measured and remembered."""
