"""Graph programs: nodes, text form, verifier, interpreter, passes."""
