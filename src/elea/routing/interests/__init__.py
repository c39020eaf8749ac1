"""Interests: what nodes below want to know, whom this node asks for it, and who has to wait.

`interests` takes them in and answers them, `demands` indexes what is wanted in the future,
`upstream` asks the gateways once for all, `pacing` makes costly askers wait.
"""
