"""Measures the contrast of everything that a page shows, as JavaScript to run in it: [of texts by their colours, of bars by their class]."""

from __future__ import annotations

CONTRAST = """(() => {
    const parse = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        throw "no background";
    };
    const ratio = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = {};
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || element.closest("script")) continue;
        const colours = getComputedStyle(element).color + " on " + behind(element);
        found[colours] = ratio(parse(getComputedStyle(element).color), behind(element));
    }
    const bars = {};
    for (const rect of document.querySelectorAll("rect:not(.ground)")) {
        const fill = parse(getComputedStyle(rect).fill);
        bars[rect.getAttribute("class")] = Math.min(ratio(fill, behind(rect)), ...[...rect.parentElement.querySelectorAll(".ground")]
            .map(ground => ratio(fill, parse(getComputedStyle(ground).fill))));
    }
    return [found, bars];
})()"""
