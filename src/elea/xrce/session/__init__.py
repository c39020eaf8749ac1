"""Sessions of XRCE: opened, kept alive, closed; the machines of both roles. Sans-IO."""
