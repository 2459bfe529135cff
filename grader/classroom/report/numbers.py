"""Numbers as the report shows them."""

from __future__ import annotations

from decimal import Decimal


def format_number(value: Decimal) -> str:
    """At most two decimal places: 12.50 as 12.5 and 12.00 as 12."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count(many: int, one: str, more: str = "") -> str:
    """1 person, 2 people; 1 test, 2 tests."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"
