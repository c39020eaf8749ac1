"""Layer 5: the other driver: whole networks of nodes in one process, in virtual time, by a seed."""
