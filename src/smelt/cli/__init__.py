"""The command line: it reads arguments, calls the public API, prints. No compiler logic."""
