"""Layer 6: the public API, with the names of zenoh-python, over one node and its driver."""
