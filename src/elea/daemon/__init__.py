"""The router as a process: `elea router`."""
