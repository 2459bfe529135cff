"""Makes a page that contains its style and script and fetches nothing.

The page's content security policy allows only this style and this script, and no request: whatever a learner's text
contains, it stays text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom import sanitize
from grader.course.syllabus import UnknownName, load_syllabus

HERE = Path(__file__).parent
MAX_TEXT_LENGTH = 4000  # characters


class ReportProblem(RuntimeError):
    """The report cannot be written; the message says what to do."""


def render_template(name: str, folder: Path = HERE, **values: Any) -> str:
    """The page NAME.html of this folder with these values, shared.css and shared.js, NAME.css and perhaps NAME.js."""
    environment = _environment(folder)
    style, script = (
        _resource(HERE / f"shared{suffix}") + _resource(folder / f"{name}{suffix}") for suffix in (".css", ".js")
    )
    sources = f"style-src {_csp_hash(style)}; script-src {_csp_hash(script)}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    environment.globals |= values  # macros in other files see them, too
    return environment.get_template(f"{name}.html").render(style=style, script=script, policy=policy)


def _environment(folder: Path):
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        way = "pip install -c constraints.txt -e '.[reports]'"
        raise ReportProblem(f"the class report needs Jinja, which is not installed: {way}") from None
    environment = Environment(
        loader=FileSystemLoader([folder, HERE]), autoescape=True, finalize=_finalize, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"number": format_number, "percent": _percent, "date": _date}
    environment.filters |= {"chapter": format_chapter, "breakable": _breakable, "code": _code}
    environment.globals |= {"count": format_count}
    return environment


def _finalize(value: Any) -> Any:
    """Sanitize every text before the template escapes it; values that are already markup come from the page itself."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return sanitize.text(value, MAX_TEXT_LENGTH) if is_text else value


def format_chapter(name: str) -> str:
    """ch03 as "3 Attention", with a no-break space."""
    try:
        chapter = load_syllabus().chapter(name)
    except UnknownName:
        return name
    return f"{chapter.number}\u00a0{chapter.title}"


def _breakable(name: str) -> Any:
    """A name in code that may be broken into lines after each underscore."""
    from markupsafe import Markup, escape

    return Markup(escape(sanitize.line(name)).replace("_", Markup("_<wbr>")))


def _code(sentence: str) -> Any:
    """A sentence in which backticks enclose code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`\n]+)`", r"<code>\1</code>", str(escape(sanitize.text(sentence, MAX_TEXT_LENGTH)))))


def _percent(part: Any, whole: Any = 1) -> str:
    return f"{100 * float(part) / float(whole):.0f}" if whole else "0"


def _date(iso: str) -> str:
    """2026-11-20T18:04:00+01:00 as "2026-11-20 at 18:04, UTC+01:00"; other texts unchanged."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d at %H:%M, %Z").rstrip(", ")
    except ValueError:
        return iso


def _resource(path: Path) -> Any:
    from markupsafe import Markup

    return Markup(path.read_text(encoding="utf-8") if path.exists() else "")


def _csp_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def format_number(value: Decimal) -> str:
    """At most two decimal places: 12.50 as 12.5 and 12.00 as 12."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count(many: int, one: str, more: str = "") -> str:
    """1 person, 2 people; 1 test, 2 tests."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"
