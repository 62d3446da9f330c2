"""From scheduled programs to flat loops."""
