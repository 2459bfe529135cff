"""Failures as scripts: a failed test leaves a short Python script that makes the failed calls again, and `headway repro` runs it.

Begin with `example.py`, what a failed test leaves. `tested_code.py` writes what the assertion looked at as code, `slicing.py` chooses the requests that
the failure depends on, `statements.py` writes each as Python, `body.py` all of them, and `script.py` the whole script. `files.py` stores
scripts, `running.py` runs them. A script itself imports only `chapters.py`.
"""
