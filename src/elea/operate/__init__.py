"""What operators ask of a data space: nodes, traffic, keys, ways; for the command and the web."""
