"""`headway play`: a model goes on with what the user types.

    opening.py     which checkpoint, whose parts, and the loaded model
    engine.py      writes token by token, and looks inside the model; it prints nothing
    session.py     texts, and the commands between them, such as /temperature or /why
    prompt.py      lines from a terminal, where a text is broken between words, or from a pipe
    web_page.py    `--web`: what a page in the browser can ask for

Begin with `engine.py`.
"""
