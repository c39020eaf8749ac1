"""The durable log: samples in Arrow segments, on disk before they are acknowledged."""
