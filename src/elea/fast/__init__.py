"""Layer 3: a plain sample, from link to link as bytes, without an object of it."""
