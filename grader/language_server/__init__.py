"""`headway lsp`: a language server, which shows the verdict of each save in the learner's editor.

    editor_server.py    the features of the protocol, and the tests that run after a save
    findings.py         what a diagnostic says and on which line; the points of an exercise, and what the hover says

Nothing runs until the first save, and none of it imports torch.
"""
