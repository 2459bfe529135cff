"""The boundary between tests and implementations: everything that a test does to an implementation passes through here.

`proxy.py` is the tests' side, `host.py` the implementation's side. `in_process.py` connects them in one process, `worker.py` over a socket to a
process in a sandbox (`sandbox/`). `target.py` says whose code is tested, `chapter_package.py` makes an importable package of it, and `values.py`
says which values can cross."""
