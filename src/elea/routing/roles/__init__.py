"""What each role forwards and declares, as data."""
