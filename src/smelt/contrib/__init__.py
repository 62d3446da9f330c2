"""Classic names for running compiled models."""
