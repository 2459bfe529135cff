"""The course as data.

`syllabus.py` reads exercises/syllabus.toml and finds what a typed name means, `source.py` reads chapters,
`reference.py` the reference. `stubs.py` makes exercises/ from solutions/. `status.py` finds the next exercise,
`progress.py` saves points and the hints shown. `paths.py` reads exercises/paths.toml and which path is chosen,
`practice.py` says which exercises are due to be written once more. `source_check.py` and `torch_operators.py` find
forbidden calls.
"""
