"""The gateway: devices on one side, the keys of the data space on the other."""
