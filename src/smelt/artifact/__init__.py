"""From fused groups to a file: programs, planned memory, the host program, the artifact."""
