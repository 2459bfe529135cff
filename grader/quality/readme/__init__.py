"""What `make readme` records from real runs: the README's pictures (`record.py`), and the trained model of two pages of the book (`story_model.py`)."""
