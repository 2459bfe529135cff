"""GPT-2 as published: its tokenizer (`tokenizer.py`, which cuts text with `splitting.py`) and its weights in the learner's GPT (`folder.py`)."""
