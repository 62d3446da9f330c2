"""Code generation: flat tensor programs to LLVM IR text, C text, object code."""
