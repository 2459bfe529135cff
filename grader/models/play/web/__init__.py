"""`headway play --web`: a page on this machine, on which a model writes and shows its inside.

    server.py        HTTP: who may ask, the files of the page, answers and streams
    api.py           what the page can ask for, as plain data: texts, likeliest tokens, attention, logit lens
    request_data.py  checks what a request contains
    page_models.py   the models of the page: the one that the command names, and those to compare it with
    turns.py         one request at a time uses a model, in the order in which they came
    static/          the page: page.html, page.css and its scripts; nothing is built

Begin with `api.py`. Every request carries its own settings and its whole text, so two tabs do not disturb each other.
"""
