// A pane is the text of one model: its tokens, which can be pointed at and chosen.

import { enter, rove } from "./rove.js";

const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
const TOKEN = ".token";

export class Pane {
  // `on` has the functions point(pane, place or null) and choose(pane, place).
  constructor(info, on) {
    this.info = info;
    this.on = on;
    this.tokens = []; // {id, text, label, written, probability, likeliest, element}
    this.ended = false; // whether the model ended the text
    this.controller = null; // while it writes
    this.chosen = null;
    this.map = null; // the attention of this text, once it was asked for
    this.element = make("article", "card pane");
    this.element.setAttribute("aria-label", `The text of ${info.name}`);
    this.title = make("h2", "", info.name);
    this.text = make("div", "text");
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-label", "The text, token by token: arrow keys move, Enter chooses");
    this.gone = make("span", "gone");
    this.notes = make("div", "notes");
    this.notes.setAttribute("role", "status");
    const legend = make("p", "legend", "The stronger the line, the less likely was the token. Choose a token to see what else was possible.");
    this.element.append(this.title, this.text, legend, this.notes);
    this.clear();
    rove(this.text, TOKEN);
    const place = (event) => this.place(event.target.closest?.(TOKEN));
    this.text.addEventListener("pointerover", (event) => on.point(this, place(event)));
    this.text.addEventListener("pointerleave", () => on.point(this, null));
    this.text.addEventListener("focusin", (event) => on.point(this, place(event)));
    this.text.addEventListener("focusout", () => on.point(this, null));
    this.text.addEventListener("click", (event) => { const at = place(event); if (at !== null) this.choose(at); });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.choose(null);
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.choose(place(event));
    });
  }

  get ids() { return this.tokens.map((token) => token.id); }
  get busy() { return this.controller !== null; }

  place(element) {
    const at = element ? this.tokens.findIndex((token) => token.element === element) : -1;
    return at < 0 ? null : at;
  }

  clear() {
    this.tokens = [];
    this.chosen = null;
    this.map = null;
    this.ended = false;
    this.gone.textContent = "";
    this.text.replaceChildren(this.gone);
    this.notes.replaceChildren();
  }

  // The tokens that the server goes on after. Those that are on the page already keep what is known of them.
  begin(tokens, leftOut, put) {
    const before = this.tokens, gone = this.gone.textContent;
    this.clear();
    if (before.length) this.gone.textContent = gone + before.slice(0, leftOut).map((token) => token.text).join("");
    tokens.forEach((token, i) => {
      const old = before[leftOut + i];
      const known = old?.id === token.id ? { written: old.written, probability: old.probability, likeliest: old.likeliest } : {};
      this.append({ ...token, ...known, ...(put && put.place === leftOut + i ? put.known : {}) });
    });
  }

  append(token) {
    const space = /^ \S/.test(token.text) ? " " : ""; // outside of the token, so that a line can break there
    const element = make("span", "token", token.text.slice(space.length));
    element.setAttribute("role", "button");
    element.tabIndex = this.tokens.length ? -1 : 0;
    if (!token.text) {
      element.classList.add("mark");
      element.textContent = token.label.startsWith("<part") ? "◌" : token.label.replace(/[<>]/g, "");
    } else if (!token.text.trim()) {
      element.dataset.space = token.text.includes("\n") ? "⏎" : "·";
    }
    if (!token.text.trim()) element.setAttribute("aria-label", token.text.includes("\n") ? "new line" : token.label.replace(/[<>]/g, "") || "space");
    if (token.written) {
      element.classList.add("written");
      element.style.setProperty("--probability", token.probability);
      element.title = `${(100 * token.probability).toFixed(1)} %`;
    }
    if (token.put) element.classList.add("put");
    this.map = null;
    this.tokens.push({ ...token, element });
    this.text.append(space, element);
    return element;
  }

  // The text of the last token grows, where it ends with an incomplete character.
  complete(text) {
    const last = this.tokens.at(-1);
    if (!text || !last) return;
    last.text += text;
    if (last.element.classList.contains("mark")) last.element.textContent = "";
    last.element.classList.remove("mark");
    last.element.append(text);
  }

  note(sentence, kind = "") {
    const shown = [...this.notes.children].some((note) => note.textContent === sentence);
    if (!shown) this.notes.append(make("p", kind, sentence));
  }

  mark(place) {
    this.chosen = place;
    this.tokens.forEach((token, i) => token.element.setAttribute("aria-pressed", i === place));
  }

  // The user chooses a token; choosing it again ends that.
  choose(place) {
    this.mark(place === this.chosen ? null : place);
    if (place !== null) enter(this.text, TOKEN, this.tokens[place].element);
    this.on.choose(this, this.chosen);
  }

  // `weights` has one number for the token at `place` and each one before it. Shades are relative to the largest, so that a head that looks at
  // many tokens is visible too; the square root shows small weights.
  shade(place, weights) {
    const full = weights ? Math.max(0.2, ...weights) : 1;
    this.tokens.forEach((token, i) => {
      const weight = weights && i <= place ? Math.sqrt(weights[i] / full) : 0;
      if (weight > 0.05) token.element.style.setProperty("--weight", weight.toFixed(3));
      else token.element.style.removeProperty("--weight");
      token.element.classList.toggle("pointed", weights !== null && i === place);
    });
  }

  // The end of the text before a place, for a caption.
  before(place) {
    const text = this.tokens.slice(0, place).map((token) => token.text).join("").replace(/\s+/g, " ").trim();
    return text.length > 34 ? `… ${text.slice(-34).replace(/^\S* (?=\S)/, "")}` : text;
  }

  shown(place) {
    const token = this.tokens[place];
    return token.text.trim() || token.label;
  }
}
