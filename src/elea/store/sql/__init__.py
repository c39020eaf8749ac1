"""SQL over tables for any Zenoh client: bounded, read only, off unless it is configured.

Its modules need the extra `sql`; who offers it to users imports them late, and says so.
"""
