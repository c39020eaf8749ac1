"""Declarations: what a DECLARE holds, one file per entity, found by `codec`.

A declaration and its undeclaration share a file: they are read, written and changed together.
"""
