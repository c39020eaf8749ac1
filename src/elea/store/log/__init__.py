"""The durable log: samples in Arrow segments, on disk before they are acknowledged.

Its modules need the extra `arrow`; who offers a log to users imports them late, and says so.
"""
