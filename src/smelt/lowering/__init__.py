"""From fused groups to programs, from scheduled programs to flat loops, and the host program."""
