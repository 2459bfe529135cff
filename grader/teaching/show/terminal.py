"""A picture as lines of text, as wide as the terminal: in colour with half blocks, or in plain characters."""

from __future__ import annotations

from grader.console.output import wrap_text
from grader.teaching.drawing.palette import CURVES
from grader.teaching.show import half_blocks, plain_text
from grader.teaching.show.panels import DIFFERENCE, Bars, Chart, Grid, Kind, Pair, Panel, Picture
from grader.teaching.show.scales import Span, equalise_units, span_of_grids, span_of_values, span_of_x
from rich.text import Text

NARROWEST, WIDEST, GAP = 20, 160, 2
CELLS = ((4, 4), (3, 2), (2, 2), (1, 1))  # pixels of one number, across and down
TALL = 16  # tables with more lines get smaller cells
PROSE = 80

Block = list[Text]


def render_picture(picture: Picture, width: int, colours: str | None) -> list[Text]:
    """Render the whole picture. `colours` is the terminal's colour system: "truecolor", "256", or None."""
    colour = colours is not None
    width = max(NARROWEST, min(width, WIDEST))
    prose = min(width, PROSE)
    page = [Text(part, "bold") for part in wrap_text(f"{picture.exercise}: {picture.about}", prose)]
    page += [Text(part, "dim") for part in wrap_text(picture.look, prose)]
    page += [Text(part, "green" if picture.agrees else "yellow") for part in wrap_text(picture.verdict, prose)]
    for pair in picture.pairs:
        page += [Text(), *_pair(pair, width, colour)]
        page += [Text(part, "yellow") for part in wrap_text(pair.note, prose) if pair.note]
    for line in page:
        line.truncate(width)
    return [half_blocks.convert_to_256(line) for line in page] if colours == "256" else page


def _pair(pair: Pair, width: int, colour: bool) -> list[Text]:
    panel: Panel = pair.reference
    head = [Text.assemble((part, "bold")) for part in wrap_text(panel.title, width)]
    names = _axes(panel)
    if len(head) == 1 and len(panel.title) + len(names) + 3 < width:
        head[0].append(f"   {names}", "dim")
    else:
        head += [Text(part, "dim") for part in wrap_text(names, width) if names]
    match panel:
        case Grid():
            blocks, below = _grids(pair, width, colour)
        case Chart():
            blocks, below = _charts(pair, width, colour)
        case Bars():
            blocks, below = _bars(pair, width, colour)
    return [*head, *_side_by_side(blocks, width), *below]


def _axes(panel: Panel) -> str:
    match panel:
        case Grid():
            return ", ".join(f"{where}: {name}" for where, name in (("down", panel.row_name), ("across", panel.column_name)) if name)
        case Chart():
            return f"across: {panel.x_name}, up: {panel.y_name}"
        case Bars():
            return panel.name


def _side_by_side(blocks: list[Block], width: int) -> list[Text]:
    """Put as many blocks in a row as fit."""
    page: list[Text] = []
    row: list[Block] = []
    for block in [*blocks, None]:
        if row and (block is None or sum(_wide(b) + GAP for b in row) + _wide(block) > width):
            page += ([Text()] if page else []) + _row(row)
            row = []
        if block is not None:
            row.append(block)
    return page


def _row(blocks: list[Block]) -> list[Text]:
    made = []
    for number in range(max(map(len, blocks))):
        line = Text(no_wrap=True)
        for i, block in enumerate(blocks):
            part = block[number] if number < len(block) else Text()
            line.append_text(part)
            if i + 1 < len(blocks):
                line.append(" " * (_wide(block) - part.cell_len + GAP))
        made.append(line)
    return made


def _wide(block: Block) -> int:
    return max((line.cell_len for line in block), default=0)


# ---- tables


def _grids(pair: Pair[Grid], width: int, colour: bool) -> tuple[list[Block], list[Text]]:
    spans = {heading: span_of_grids(pair, heading) for heading in pair.panels}
    across, down = _cell(list(pair.panels.values()), width, colour)
    blocks = []
    for heading, panel in pair.panels.items():
        panel, left_out = _thin_columns(panel, width - _label(panel) - 1, across)
        inside = half_blocks.render_pixels(half_blocks.cells(panel, spans[heading], across, down)) if colour else plain_text.cells(panel, spans[heading], across)
        above = _column_labels(panel.columns, across, "^" if colour else ">")
        label = _label(panel)
        body = []
        for number, line in enumerate(inside):
            row, rest = divmod(2 * number, down)
            name = panel.rows[row] if rest == 0 else ""
            body.append(Text.assemble(f"{name[:label]:>{label}} ", line))
        blocks.append([_heading(heading, label + 1, heading == DIFFERENCE), *(Text.assemble(" " * (label + 1), (line, "dim")) for line in above), *body])
        if left_out:
            blocks[-1].append(Text(left_out, "dim"))
    keys = [_key(pair.reference, spans[next(iter(spans))], colour)]
    if pair.differs is not None:
        keys.append(Text.assemble(f"{DIFFERENCE}: ", _key(pair.differs, spans[DIFFERENCE], colour)))
    return blocks, keys


def _heading(heading: str, indent: int, differs: bool) -> Text:
    return Text.assemble(" " * indent, (heading, "bold yellow" if differs else "cyan"))


def _both(pair: Pair[Kind]) -> list[Kind]:
    return [panel for panel in (pair.reference, pair.yours) if panel is not None]


def _cell(panels: list[Grid], width: int, colour: bool) -> tuple[int, int]:
    """Return the largest cells with which all panels fit side by side and are not too tall; else cells with which each fits alone."""
    if not colour:
        return plain_text.width(panels), 2

    def fits(across: int, down: int, together: bool) -> bool:
        widths = [_label(panel) + 1 + across * len(panel.columns) for panel in panels]
        need = sum(widths) + GAP * (len(panels) - 1) if together else max(widths)
        return need <= width and all(down * len(panel.rows) <= 2 * (TALL if down > 2 else 3 * TALL) for panel in panels)

    large = [cell for cell in CELLS[:-1] if fits(*cell, together=True)] or [cell for cell in CELLS[2:-1] if fits(*cell, together=False)]
    small = max(len(panel.rows) for panel in panels) <= TALL
    return large[0] if large and (small or fits(*large[0], together=True)) else CELLS[-1]


def _label(panel: Grid) -> int:
    return min(24, max((len(label) for label in panel.rows), default=0))


def _thin_columns(panel: Grid, room: int, across: int) -> tuple[Grid, str]:
    """Show only every second, third ... column if not all fit."""
    step = -(-len(panel.columns) * across // max(room, across)) if panel.columns else 1
    if step <= 1:
        return panel, ""
    kept = Grid(panel.title, [row[::step] for row in panel.values], panel.rows, panel.columns[::step], words=panel.words)
    return kept, f"one column of {step} is shown"


def _column_labels(columns: list[str], across: int, side: str) -> list[str]:
    """Return the labels above the columns: numbers in one line if they fit, words with one letter below the other."""
    longest = max(map(len, columns), default=0)
    if longest < across or all(label.isdigit() for label in columns):
        step = -(-(longest + 1) // across)
        step = next(s for s in (1, 2, 4, 5, 8, 10, 16, 20, 64) if s >= step)
        return ["".join(f"{label:{side}{across}}".ljust(step * across) for label in columns[::step]).rstrip()]
    return ["".join(f"{label.rjust(longest)[row]:{side}{across}}" for label in columns).rstrip() for row in range(longest)]


def _key(panel: Grid, span: Span, colour: bool) -> Text:
    """Explain the colours or the digits."""
    if not colour:
        return Text(plain_text.key(panel, span), "dim")
    low, high = span.ends
    if panel.words:
        text = Text.assemble(("▀▀", f"{half_blocks.shade(1.0, span)} on {half_blocks.shade(1.0, span)}"), f" {panel.words[1]}  ")
        text.append("▀▀", f"{half_blocks.shade(0.0, Span(0, 1))} on {half_blocks.shade(0.0, Span(0, 1))}").append(f" {panel.words[0]}")
    else:
        text = Text.assemble(f"{low:.3g} ", *half_blocks.scale(span), f" {high:.3g}")
    if span.holes:
        text.append("  ").append("▀▀", f"{half_blocks.NO_NUMBER} on {half_blocks.NO_NUMBER}").append(" no number")
    return text


# ---- charts and bars


def _room(panels: int, width: int, least: int) -> int:
    """Return the columns for each panel, with as many in a row as leave at least `least` columns to each."""
    together = next((count for count in (panels, 2, 1) if count <= panels and (width - GAP * (count - 1)) // count >= least), 1)
    return (width - GAP * (together - 1)) // together


def _charts(pair: Pair[Chart], width: int, colour: bool) -> tuple[list[Block], list[Text]]:
    panels, label = pair.panels, 8
    columns = min(60, _room(len(panels), width, 36)) - label - 1
    blocks = []
    for heading, panel in panels.items():
        if panel is pair.differs and panel.y_name != pair.reference.y_name:
            heading = f"{heading}: {panel.y_name}"
        others = [panel] if panel is pair.differs else _both(pair)
        x, y = span_of_x(others), span_of_values(others)
        rows = min(12, columns // 2) if panel.square else 9
        across = min(columns, 4 * rows) if panel.square else columns
        if panel.square:
            x, y = equalise_units(x, y, across, 2 * rows)
        inside = half_blocks.render_pixels(half_blocks.plot(panel, x, y, across, 2 * rows)) if colour else plain_text.plot(panel, x, y, across, rows)
        names = {0: f"{y.high:.3g}", rows - 1: f"{y.low:.3g}"}
        body = [Text.assemble((f"{names.get(number, ''):>{label}} ", "dim"), line) for number, line in enumerate(inside)]
        last = f"{x.high:.6g}"
        foot = Text(" " * (label + 1) + f"{x.low:.6g}".ljust(across - len(last)) + last, "dim")
        blocks.append([_heading(heading, label + 1, panel is pair.differs), *body, foot])
    key = Text()
    for number, name in enumerate(pair.reference.lines):
        mark = ("▀▀", CURVES[number % len(CURVES)].light) if colour else (plain_text.MARKS[number], "")
        key.append("   " if number else "").append(*mark).append(f" {name}")
    if any(span_of_values([panel]).holes for panel in panels.values()):
        key.append("   a gap: no number")
    return blocks, [key]


def _bars(pair: Pair[Bars], width: int, colour: bool) -> tuple[list[Block], list[Text]]:
    panels = pair.panels
    label = max(len(name) for panel in panels.values() for name in panel.labels)
    room = max(4, min(44, _room(len(panels), width, label + 18)) - label - 10)
    blocks = []
    for heading, panel in panels.items():
        span = span_of_values([panel] if panel is pair.differs else _both(pair))
        far = max(abs(span.low), abs(span.high)) or 1.0
        body = [Text.assemble(f"{name:>{label}} ", _bar(value, far, room, colour), f" {_number(value)}") for name, value in zip(panel.labels, panel.values)]
        blocks.append([_heading(heading, label + 1, panel is pair.differs), *body])
    return blocks, []


def _bar(value: float, far: float, room: int, colour: bool) -> Text:
    halves = round(2 * room * min(abs(value) / far, 1.0)) if value == value else 0
    if colour:
        drawn = "█" * (halves // 2) + "▌" * (halves % 2)
        return Text(drawn, half_blocks.UP if value >= 0 else half_blocks.DOWN)
    return Text(("#" if value >= 0 else "-") * (halves // 2))


def _number(value: float) -> str:
    return "no number" if value != value else f"{value:.3g}"

