"""How smelt talks with what builds a project: JSON-RPC 2.0, one message a line, over two pipes."""
