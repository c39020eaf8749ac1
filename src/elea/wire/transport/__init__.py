"""One conversation with one neighbour: INIT OPEN CLOSE KEEP_ALIVE FRAME FRAGMENT OAM JOIN."""
