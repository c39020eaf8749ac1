"""Decoding: payloads and their encodings to values, for all who look into samples."""
