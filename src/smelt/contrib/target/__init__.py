"""Classic names for writing models in formats of others."""
