"""The message definitions, in the language of `elea.xrce.dsl`."""
