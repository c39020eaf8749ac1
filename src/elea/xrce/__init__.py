"""XRCE, the protocol of devices too small for Zenoh: messages, channels, sessions. Sans-IO.

It is another protocol and shares only the vocabulary with the rest of Elea.
"""
