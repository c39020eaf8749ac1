"""Logs over Arrow Flight: a door of a recorder, for reading only, closed unless it is configured.

`server.py` alone imports Flight, which takes a third of a second; `door.py` imports it late.
"""
