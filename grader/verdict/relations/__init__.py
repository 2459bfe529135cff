"""How a wrong tensor differs from the right one, in sentences. Begin with `engine.py`."""
