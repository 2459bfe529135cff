"""`headway lsp`: a language server, which shows the verdict of each save in the learner's editor.

`server.py` has the features of the protocol, `findings.py` decides what a diagnostic says and on which line, and
`checks.py` runs the tests after a save, one exercise after the other. Only `server.py` needs pygls, and none of it
imports torch. Nothing runs until the first save.
"""
