"""The learner's own tests of an exercise, exercises/my_tests/test_NAME.py: which versions of it do they accept?

`own_file.py` reads the file, or writes a small one to begin with, and refuses what looks at code; `versions.py` lists
the versions: the reference and its variants, which are correct, and one for each known mistake; `trying.py` has each
version tested in a worker of its own, which `zygote.py` forks and which runs pytest (`running.py`). A worker is in the
sandbox that learners' code has. It knows the behaviour of one version, and neither its name nor its text.
`refusals.py` says how the tests refuse a correct version.
"""
