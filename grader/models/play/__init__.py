"""`headway play`: a model goes on with what the user types.

    opening.py    which checkpoint, whose parts, and the loaded model
    engine.py     writes token by token, and looks inside the model; it prints nothing, so a terminal or a web page can
    use it session.py    texts: a beginning and what the model makes of it, two models side by side commands.py
    answers a line that the user types: a command such as /temperature or /why, or a beginning serving.py    with
    chapter 15: a smaller model guesses ahead; many beginnings in one batch settings.py   how the next token is chosen
    notes.py      sentences about a model and its texts views.py      bars and tables as plain text prompt.py     the
    terminal: line editing, history, completion wrapping.py   breaks a text between words while it is being written
    plain.py      no terminal: lines in, texts out web/          `--web`: the same on a page in the browser

Begin with `engine.py`.
"""
