"""The warm engine: torch, pytest and the suites loaded once, so that a verdict takes a tenth of a second and not four.

`client.py` asks, from a process without torch; `server.py` answers, gives each run a process of its own and sees to its end;
`held.py` is a pytest session that stands ready, and in that process becomes an ordinary run. Where forking is not safe,
`spares.py` keeps such processes in stock.
"""
