"""The programme of worlds that Elea is tested with: plans, sessions, faults, laws; by a seed."""
