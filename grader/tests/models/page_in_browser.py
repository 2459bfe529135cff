"""What a person does on the page of `headway play --web`, in a real browser, and what they see."""

TOKENS = "[...document.querySelectorAll('.token')]"
BARS = """[...document.querySelectorAll('.candidate')].map(bar =>
    [bar.querySelector('.name').textContent, ...[...bar.querySelectorAll('.number')].map(number => number.textContent)])"""
COLOURS = """(() => {
    const tokens = [...document.querySelectorAll('.token')], shades = tokens.map(token => Number(token.style.getPropertyValue('--weight')));
    const token = tokens[shades.indexOf(Math.max(...shades))];
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const paint = colour => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
    const ink = paint(getComputedStyle(token).color);
    paint(getComputedStyle(token.closest('.card')).backgroundColor);
    return [ink, paint(getComputedStyle(token).backgroundColor)];
})()"""  # the ink and the background of the token with the strongest shade


def opened(browser, address, **how):
    """The page, when its scripts have begun."""
    page = browser.open(address, **how)
    page.until(lambda: page.js("'ready' in document.documentElement.dataset"))
    return page


def set_slider(page, name, value):
    page.js(f"(() => {{ const input = document.getElementById('{name}'); input.value = {value}; input.dispatchEvent(new Event('input')); }})()")


def write(page, text, length=12):
    """Write a text and wait until the page shows the inside of the model."""
    set_slider(page, "length", length)
    page.js("(() => { const box = document.getElementById('beginning'); box.value = ''; box.focus(); })()")
    page.type(text)
    page.press("Enter")
    finished(page)


def finished(page):
    """Wait until no text is written and the page shows the inside of the model."""
    page.until(lambda: page.js(f"!document.documentElement.classList.contains('busy') && {TOKENS}.length"))
    page.until(lambda: page.js("!document.getElementById('lens').hidden && !document.getElementById('heads').hidden && document.querySelectorAll('.candidate').length"))


def point(page, place):
    """Move the mouse over a token."""
    x, y = page.js(f"(() => {{ const box = {TOKENS}[{place}].getClientRects()[0]; return [box.x + box.width / 2, box.y + box.height / 2]; }})()")
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def text_of(page):
    """The text of the (first) model, without marks such as that of the beginning."""
    return page.js("""(() => {
        const text = document.querySelector('.text').cloneNode(true);
        text.querySelectorAll('.mark').forEach(mark => mark.remove());
        return text.textContent;
    })()""")


def weights(page):
    return page.js(f"{TOKENS}.map(token => Number(token.style.getPropertyValue('--weight')))")


def contrast(one, other):
    """The contrast of two colours, as WCAG defines it."""

    def luminance(colour):
        red, green, blue = ((v / 255) / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
