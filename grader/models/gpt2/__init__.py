"""GPT-2 as published: its tokenizer (`tokenizer.py`, which splits a text with chapter 1's `split_for_bpe`) and its
weights in the learner's GPT (`folder.py`)."""
