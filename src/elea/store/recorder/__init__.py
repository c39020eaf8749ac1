"""The recorder: what is published, into durable logs; acknowledged to who asks.

Its modules need the extra `arrow`; who offers them to users imports them late, and says so.
"""
