"""What several commands need of a terminal: the page they print on, and the learner's editor."""
