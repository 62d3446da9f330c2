"""What all levels share: scalar expressions, types, nodes, modules, options, errors."""
