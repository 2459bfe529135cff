"""`headway play`: a model goes on with what the user types.

    opening.py    which checkpoint, whose parts, and the loaded model
    engine.py     writes token by token, and looks inside the model; it prints nothing
    session.py    texts: a beginning and what the model makes of it, and notes about both
    commands.py   answers a line that the user types: a command such as /temperature or /why, or a beginning
    settings.py   how the next token is chosen
    views.py      bars and tables as plain text
    prompt.py     the terminal: line editing, history, completion, and a text broken between words
    web/          `--web`: the same on a page in the browser

Begin with `engine.py`.
"""
