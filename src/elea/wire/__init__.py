"""Layer 1: every message of Zenoh 1.x as octets and as plain values; one message, one file."""
