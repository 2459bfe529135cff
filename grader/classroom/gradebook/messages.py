"""Sentences about a gradebook for the instructor."""

from __future__ import annotations


def describe_changes(seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old_names: list[str]) -> str:
    """What differs from the last run, and the consequence, as a sentence; "" if nothing differs."""
    changed = [f"the seed ({old_seed}, now {seed})"] if seed != old_seed else []
    for name in sorted(versions.keys() | old_versions.keys()):
        old, new = old_versions.get(name, "unknown"), versions.get(name, "unknown")
        if old != new:
            changed.append("the kit (its grader, tests, solutions or syllabus)" if name == "kit" else f"{name} ({old}, now {new})")
    if changed:
        consequence = "Earlier results stay in the gradebook but do not count; submissions without results for the new settings are graded now."
        return f"Changed since the last run: {_join(changed)}. {consequence}"
    if more := [name for name in names if name not in old_names]:
        shown = _join(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions without results for these exercises are graded now."
    return ""


def _join(things: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(things[:-1]), things[-1]]))
