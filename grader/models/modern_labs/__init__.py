"""The labs of lesson 20: what parts of today's models do to a small one.

    small_model.py   the stories as rows of tokens, and how a model is trained on them
    stretching.py    RoPE on texts that are longer than in training
    updates.py       the singular values of the updates of AdamW and Muon

`headway measure` runs them. Begin with `small_model.py`.
"""
