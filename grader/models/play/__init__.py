"""`headway play`: a model goes on with what the user types.

    opening.py    which checkpoint, whose parts, and the loaded model
    engine.py     writes token by token, and looks inside the model; it prints nothing
    session.py    texts: a beginning and what the model makes of it, two models side by side; notes about both
    commands.py   answers a line that the user types: a command such as /temperature or /why, or a beginning
    settings.py   how the next token is chosen
    views.py      bars and tables as plain text
    prompt.py     lines from a terminal, where a text is broken between words, or from a pipe
    web/          `--web`: the same on a page in the browser

Begin with `engine.py`.
"""
