"""XRCE on sockets: the gateway of a router, and devices that are programs in Python."""
