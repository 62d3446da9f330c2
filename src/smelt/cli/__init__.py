"""The command line: it reads arguments, calls the public face, prints. No compiler logic."""
