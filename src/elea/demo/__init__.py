"""A fleet that can be watched: `elea demo` runs all parts of Elea, and counts every sample."""
