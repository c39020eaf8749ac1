"""Layer 2: who wants what, and which way. Sans-IO; `core.Routing` is the object that is driven."""
