"""Programs of the classic stack: `python -m smelt.exec.rpc_server`."""
