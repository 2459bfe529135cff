// What the page shows of the inside of a model: bars, the heads of the attention, the table of the logit lens.

import { enter, rove } from "./rove.js";

const find = (id) => document.getElementById(id);
const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

// ---- the five likeliest tokens

export class Bars {
  constructor(onPick) {
    this.list = find("candidates");
    this.onPick = onPick;
    this.rows = [];
    this.at = null; // {pane, place}: where a candidate would be put
  }

  clear(where) {
    this.list.replaceChildren();
    this.rows = [];
    find("next-where").textContent = where;
    find("next-head").hidden = find("next-help").hidden = true;
  }

  // `drawn` is the id of the token that is there; null while nothing is.
  show(candidates, drawn, where, at) {
    this.at = at;
    find("next-where").textContent = where;
    find("next-head").hidden = find("next-help").hidden = false;
    while (this.rows.length < candidates.length) this.rows.push(this.row());
    this.rows.splice(candidates.length).forEach((row) => row.item.remove());
    candidates.forEach((candidate, i) => {
      const { button, token, track, probability, chance } = this.rows[i];
      this.rows[i].candidate = candidate;
      token.textContent = candidate.text;
      track.style.setProperty("--probability", candidate.probability);
      track.style.setProperty("--chance", candidate.drawn);
      probability.textContent = percent(candidate.probability);
      chance.textContent = percent(candidate.drawn);
      button.classList.toggle("there", candidate.id === drawn);
      button.setAttribute("aria-label", `${candidate.text}: ${percent(candidate.probability)}, drawn ${percent(candidate.drawn)}${candidate.id === drawn ? ", this token was taken" : ""}`);
    });
  }

  row() {
    const row = { item: make("li", ""), button: make("button", "candidate"), token: make("span", "name"), track: make("span", "track"), probability: make("span", "number"), chance: make("span", "number faint") };
    row.button.type = "button";
    row.track.append(make("span", "fill"), make("span", "chance"));
    row.button.append(row.token, row.track, row.probability, row.chance);
    row.button.addEventListener("click", () => this.onPick(row.candidate));
    row.item.append(row.button);
    this.list.append(row.item);
    return row;
  }
}

// ---- attention

export class Heads {
  constructor(onChange) {
    this.grid = find("heads");
    this.layer = find("layer");
    this.head = find("head");
    this.onChange = onChange;
    this.data = null; // {length, weights, kinds}
    this.shape = [0, 0];
    this.at = [0, 0];
    for (const choice of [this.layer, this.head]) choice.addEventListener("change", () => this.choose(this.layer.selectedIndex, this.head.selectedIndex));
    rove(this.grid, "button", () => this.shape[1]);
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // Make room for the heads of a model.
  resize(layers, heads) {
    if (this.shape[0] === layers && this.shape[1] === heads) return;
    this.shape = [layers, heads];
    for (const [choice, count] of [[this.layer, layers], [this.head, heads]]) {
      choice.replaceChildren(...Array.from({ length: count }, (_, i) => new Option(i + 1)));
    }
    this.grid.style.setProperty("--heads", heads);
    this.grid.replaceChildren();
    for (let layer = 0; layer < layers; layer++) {
      this.grid.append(make("span", "layer", `${layer + 1}`));
      for (let head = 0; head < heads; head++) {
        const button = make("button", "head");
        button.type = "button";
        button.append(document.createElement("canvas"));
        button.addEventListener("click", () => this.choose(layer, head));
        button.addEventListener("focus", () => enter(this.grid, "button", button));
        this.grid.append(button);
      }
    }
    this.choose(0, 0);
  }

  buttons() { return [...this.grid.querySelectorAll("button")]; }

  choose(layer, head) {
    this.at = [layer, head];
    this.layer.selectedIndex = layer;
    this.head.selectedIndex = head;
    this.buttons().forEach((button, i) => {
      const mine = i === layer * this.shape[1] + head;
      button.setAttribute("aria-pressed", mine);
      button.tabIndex = mine ? 0 : -1;
    });
    this.say();
    this.onChange();
  }

  say() {
    const kind = this.data?.kinds[this.at[0]]?.[this.at[1]];
    find("head-kind").textContent = kind ? `classify_head calls it “${kind}”` : "";
  }

  set(data) {
    this.data = data && { ...data, weights: Uint8Array.from(atob(data.weights), (c) => c.charCodeAt(0)) };
    find("head-choice").hidden = !data;
    this.grid.hidden = !data;
    this.say();
    this.draw();
  }

  // The weights of the chosen head from one token: numbers from 0 to 1, or null if they are not here.
  row(place) {
    if (!this.data || place >= this.data.length) return null;
    const from = this.start(...this.at) + (place * (place + 1)) / 2;
    return Array.from(this.data.weights.subarray(from, from + place + 1), (weight) => weight / 255);
  }

  start(layer, head) {
    const { length } = this.data;
    return (layer * this.shape[1] + head) * ((length * (length + 1)) / 2);
  }

  draw() {
    if (!this.data) return;
    const { length, weights, kinds } = this.data;
    const [red, green, blue] = getComputedStyle(this.grid).color.match(/\d+/g).map(Number);
    this.buttons().forEach((button, i) => {
      const [layer, head] = [Math.floor(i / this.shape[1]), i % this.shape[1]];
      const kind = kinds[layer][head];
      button.title = `Layer ${layer + 1}, head ${head + 1}${kind ? `: ${kind}` : ""}`;
      button.setAttribute("aria-label", button.title);
      const canvas = button.firstChild;
      canvas.width = canvas.height = length;
      const context = canvas.getContext("2d");
      const image = context.createImageData(length, length);
      let from = this.start(layer, head);
      for (let row = 0; row < length; row++) {
        for (let column = 0; column <= row; column++) {
          image.data.set([red, green, blue, 255 * Math.sqrt(weights[from++] / 255)], 4 * (row * length + column));
        }
      }
      context.putImageData(image, 0, 0);
    });
  }
}

// ---- logit lens

export function showLens(layers, drawn, name = "layer") {
  const rows = layers.map((candidates, i) => {
    const row = make("tr", "");
    const head = make("th", "", i ? `${name} ${i}` : "embeddings");
    head.scope = "row";
    row.append(head);
    for (const candidate of candidates) {
      const cell = make("td", candidate.id === drawn ? "there" : "");
      cell.append(make("span", "name", candidate.text), make("span", "number", percent(candidate.probability)));
      cell.title = candidate.text;
      cell.style.setProperty("--probability", candidate.probability);
      row.append(cell);
    }
    return row;
  });
  find("lens").tBodies[0].replaceChildren(...rows);
  find("lens").hidden = !layers.length;
}
