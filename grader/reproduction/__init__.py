"""Failures as scripts: a failed test leaves a short Python script that makes the failed call again, and `headway repro`
runs it.

Begin with `example.py`, what a failed test leaves. `script.py` chooses the requests that the failure depends on and
writes the script, `statements.py` writes each request as Python. `files.py` stores a script that fails in the same way,
`running.py` runs it. A script itself imports only `chapters.py`.
"""
