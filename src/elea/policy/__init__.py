"""What may pass through a neighbour's face: access rules, rates, sizes, QoS and quotas. Sans-IO.

A `Policy` is read from a configuration. For each neighbour and direction it gives a `Chain`, which
knows from the start who the neighbour is, and decides over one message at a time.
"""
