"""Layer 4: the whole of a Zenoh node without I/O: many transports, one routing table, timers."""
