"""The labs of lesson 19: which near-duplicates are found, what filters remove, what copies and mixtures do to a model.

    bands.py       the share of similar pairs that MinHash and bands find
    filters.py     pages that the quality rules remove, and bad pages that they miss
    small_gpt.py   a GPT of the stories, trained on rows that a lab chooses
    copies.py      the same text several times in the training set
    mixtures.py    two kinds of text at several weights

`headway measure` runs them.
"""
