"""The historian: answers queries from logs, by key and time, with the past as with the present.

Its modules need the extra `arrow`; who offers a historian to users imports them late, and says so.
"""
