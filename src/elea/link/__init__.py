"""Drivers that touch the network: sockets, the loops that watch them, and who may come in.

Nothing here knows the rules of the conversation; octets go up to the node and come down from it.
"""
