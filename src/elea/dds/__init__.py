"""The bridge between DDS domains and the data space (docs/spec/dds.md).

Topics and keys see each other without IDL and without decoding, in both directions. Only
`elea.dds.cyclone` imports the DDS library; the other modules use the protocol `elea.dds.port.Dds`.
"""
