"""The command line: `main.py` parses, each module of `commands/` does one command."""
