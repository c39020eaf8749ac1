"""Channels of XRCE: numbers, order, acknowledgement, retransmission. Sans-IO, told the time."""
