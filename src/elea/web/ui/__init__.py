"""The page: what a browser shows of the data space, and the live protocol it asks with."""
