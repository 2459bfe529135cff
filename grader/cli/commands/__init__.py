"""What each `headway` command does; grader/cli/main.py parses and calls them."""
