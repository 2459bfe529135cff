"""The boundary between tests and implementations: everything that a test does to an implementation passes through here.

`proxy.py` is the tests' side, `host.py` the implementation's side; begin with these two. What connects them:

    in_process.py, late_calls.py   in one process, with a time limit, which the reference has not
    worker.py, wire.py             over a socket to a process of its own, which `sandbox/` isolates
    worker_pool.py, zygote.py, worker_process.py   how such a process starts, and what it does
    connection.py                  requests and replies, and what carries them
    example_requests.py            requests sent ahead of the test, and replies that are known from a recording
    values.py                      which values can cross

Whose code runs:

    target.py                      a folder, or texts; and the reference's definitions that replace some of theirs
    chapter_package.py             an importable package of chapters
    names_used.py                  which definitions use which others

For chapter 18: `simulated_group.py`, a group of ranks. They run on the implementation's side, and what they send each
other goes through the tests' side. For chapter 21: `simulated_gpu.py`, a GPU that runs kernels on memory of the tests'
side, and `kernel_language.py`, what a kernel may use.

What is noticed meanwhile: the calls (`proxy.py`, `inner_calls.py`), changed arguments, threads, forbidden functions
(`forbidden/`), calls that do not end (`late_calls.py`), and errors (`errors.py`, `descriptions.py`).
"""
