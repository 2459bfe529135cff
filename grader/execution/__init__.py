"""The boundary between tests and implementations: everything that a test does to an implementation passes through here.

`proxy.py` is the tests' side, `host.py` the implementation's side; begin with these two. What connects them:

    in_process.py, call_watch.py   in one process, with a time limit
    worker.py, wire.py             over a socket to a process of its own, which `sandbox/` isolates
    worker_pool.py, zygote.py, worker_process.py   how such a process starts, and what it does
    calls.py, reference_connection.py   what crosses, and the connection to the reference
    example_requests.py            requests sent ahead of the test, and replies that are known from a recording
    values.py, gradients.py        which values can cross, and calls with gradient

Whose code runs:

    target.py                      a folder, or texts
    chapter_package.py             an importable package of chapters
    reference_parts.py             the reference's definitions that replace some of the learner's
    names_used.py                  which definitions use which others

For chapter 18: `simulated_group.py`, a group of ranks that tests run inside the implementation's side.

What is noticed meanwhile: the calls (`calls.py`, `inner_calls.py`), changed arguments, threads, forbidden functions
(`forbidden/`), the line where time ran out (`stuck_line.py`), and errors (`errors.py`, `descriptions.py`).
"""
