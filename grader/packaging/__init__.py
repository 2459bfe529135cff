"""Builds the wheel; pip runs this, and no part of the kit imports it."""
