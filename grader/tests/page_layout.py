"""Finds what does not fit on a page in a real browser: `misfits(page)`, at the widths of a phone, a tablet, a laptop and a large screen.

Too wide is what reaches beyond the window, except in a box that scrolls sideways. Broken is a button or a badge (an inline box with a border or
round ends) on more than one line, or with more text than it shows. Cut is a box that scrolls sideways: a table may, if the test allows it.
"""

from __future__ import annotations

from browser import Page

WIDTHS = (390, 768, 1280, 1920)

_LAYOUT = """(() => {
    const name = one => `${one.tagName}#${one.id}.${one.className} ${one.textContent.trim().slice(0, 60)}`;
    const seen = [...document.body.querySelectorAll('*')].filter(one => one.checkVisibility() && one.getClientRects().length && !one.closest('.skip, .off-page'));
    const scrolls = one => {
        for (let at = one.parentElement; at && at !== document.body; at = at.parentElement) if (getComputedStyle(at).overflowX !== 'visible') return true;
        return false;
    };
    const wide = seen.filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one)).map(name);
    if (document.documentElement.scrollWidth > innerWidth) wide.push('the window');
    const lines = one => {
        const text = document.createRange();
        text.selectNodeContents(one);
        let count = 0, bottom = -Infinity;
        for (const box of [...text.getClientRects()].filter(box => box.width > 1 && box.height > 1).sort((a, b) => a.top - b.top)) {
            if (box.top + 2 > bottom) count++;
            bottom = Math.max(bottom, box.bottom);
        }
        return count;
    };
    const badge = one => {
        const style = getComputedStyle(one), box = parseFloat(style.borderLeftWidth) > 0 || parseFloat(style.borderTopLeftRadius) > 20;
        return style.display.startsWith('inline') && box && one.textContent.trim() && !one.matches('button, input, select, code');
    };
    const whole = seen.filter(one => (one.matches('button, [role=button], .buttons a, #model-name') || badge(one)) && !one.matches('th button, .text .token:not(.mark)'));
    const cut = one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth && getComputedStyle(one).textOverflow !== 'ellipsis';
    const broken = whole.filter(one => one.getClientRects().length > 1 || lines(one) > 1 || cut(one)).map(name);
    return { wide, broken, cut: seen.filter(one => one.matches('.scroll') && cut(one)).map(name) };
})()"""


def misfits(page: Page, tables_may_scroll: bool = True) -> list[tuple[int, str, str]]:
    """All that does not fit, as (width of the window, what is wrong, the element); folded parts are opened."""
    found = []
    page.js("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for width in WIDTHS:
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        seen = page.js(_LAYOUT)
        found += [(width, what, one) for what in ("wide", "broken") for one in seen[what]]
        found += [(width, "cut", one) for one in seen["cut"] if not tables_may_scroll]
    return found
