"""The course as data.

`syllabus.py` reads exercises/syllabus.toml, `source.py` reads chapters, `reference.py` the reference.
`stubs.py` makes exercises/ from solutions/. `status.py` finds the next exercise, `progress.py` saves points and the
hints shown. `source_check.py` and `torch_operators.py` find forbidden calls.
"""
