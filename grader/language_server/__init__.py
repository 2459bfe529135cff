"""`headway lsp`: a language server, which shows the verdict of each save in the learner's editor.

    server.py           the features of the protocol; only this needs pygls
    checks.py           runs the tests after a save, one exercise after the other
    findings.py         what a diagnostic says, and on which line
    exercise_texts.py   the points of an exercise, and what the hover says

Nothing runs until the first save, and none of it imports torch.
"""
