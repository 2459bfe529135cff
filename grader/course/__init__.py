"""The course as data.

`syllabus.py` reads exercises/syllabus.toml, `source.py` reads chapters, `stubs.py` makes exercises/ from solutions/. `status.py` says where the learner
is, `progress.py` and `hints.py` keep what was reached and shown. `forbids.py` and `torch_operators.py` know what an exercise may not call.
`sealed/` reads the reference in a handout.
"""
