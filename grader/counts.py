"""A number with its noun."""


def format_count(many: int, one: str, more: str = "") -> str:
    """1 person, 2 people; 1 test, 2 tests."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"
