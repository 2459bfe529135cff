"""The labs of lesson 17: what fine-tuning, preferences and rewards do to a small model of the stories.

    small_model.py   the model, its texts, and how it is trained
    adapters.py      ranks of an adapter; what is forgotten
    preferences.py   pairs of answers: swapped labels, and reward models that do not see the question
    hacking.py       a reward that can be cheated, and the KL penalty

`headway measure` runs them. Begin with `small_model.py`.
"""
