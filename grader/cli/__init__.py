"""The command line: `main.py` lists the commands, and `commands/` has one function for each."""
