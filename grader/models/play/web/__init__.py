"""`headway play --web`: a page on this machine, on which a model writes and shows its inside.

    server.py        HTTP: who may ask, the files of the page, answers and streams
    api.py           what the page can ask for, as plain data: texts, likeliest tokens, attention, logit lens
    page_models.py   the models of the page: the one that the command names, and those to compare it with
    static/          the page: page.html, page.css and its scripts; nothing is built

Begin with `api.py`. Every request carries its own settings and its whole text, so two tabs do not disturb each other.
"""
