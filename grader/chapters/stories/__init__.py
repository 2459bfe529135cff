"""An endless corpus of small stories, written for this course: a few hundred words, simple causes and effects, four to
eight sentences.

    cast.py         people, animals, things and places, and what is true of them
    telling.py      a story in the making: who is in it, and its sentences
    scenes.py       what happens: one function for each kind of story
    more_scenes.py  more of them
    corpus.py       `story(seed, number)`, and the division into training and validation

A scene decides what happens; the cast decides to whom. So a model that has seen some thousand stories can go on with
one it has not seen.
"""
