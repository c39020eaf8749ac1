"""The language XRCE's messages are defined in: text to tree, its checks, and what is made of it.

text -> `parse` -> definitions -> `check` -> Schema -> `emit` the codec as Python
                                                    -> `interpret` a second, slow codec
                                                    -> `diagram` and `dictionary`
"""
