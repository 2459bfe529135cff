"""What each `headway` command does; grader/cli.py parses and calls them."""
