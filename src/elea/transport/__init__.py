"""One conversation with one neighbour: handshake, batches, leases, fragments; groups; scouting."""
