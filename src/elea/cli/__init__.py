"""The `elea` command: one module per verb, dispatched by `main`."""
