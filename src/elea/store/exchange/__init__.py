"""Logs as files of other formats, and back: Parquet, JSON lines, MCAP; CSV one way.

Needs the extra `arrow`, and MCAP the extra `mcap`.
"""
