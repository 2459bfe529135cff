// Connects the parts of the page: what the user does, what the server answers, and what is shown.

import { Bars, Heads, percent, showLens } from "./inside.js";
import { Pane } from "./pane.js";
import * as settings from "./settings.js";
import { ask, latest, Problem, stream } from "./stream.js";
import { beginTheme } from "./theme-button.js";
import { translate } from "./translator.js";

const find = (id) => document.getElementById(id);
const askFor = { likeliest: latest(), attention: latest(), lens: latest() };
const ENDINGS = { length: "", end: "The model ended its text here.", full: "" };

let panes = [];
let active = null; // the pane that the right side is about
let pointed = null; // a place in it
let last = null; // the beginning and the settings of the last text, for a model to compare with
const bars = new Bars(pick);
const heads = new Heads(shade);

// ---- writing

async function start(pane, body, put) {
  pane.controller?.abort();
  const controller = (pane.controller = new AbortController());
  if (body.text !== undefined) pane.clear();
  pane.mark(null);
  pane.notes.replaceChildren();
  pane.ended = false;
  say(pane, "Writing …");
  showButtons();
  let count = 0, begun = 0, finished = false;
  const pace = () => `${count} tokens, ${Math.round(count / Math.max((performance.now() - begun) / 1000, 0.001))} per second`;
  try {
    for await (const event of stream("write", { model: pane.info.model, settings: body.settings, ...body }, controller.signal)) {
      if (event.event === "begin") {
        pane.begin(event.tokens, event.left_out, put);
        event.notes.forEach((note) => pane.note(note));
        begun = performance.now();
      } else if (event.event === "token") {
        count++;
        const element = pane.append({ ...event, written: true });
        if (pane === active) showWritten(pane);
        keepInView(element);
        say(pane, pace(), "pace");
      } else {
        finished = true;
        say(pane, pace());
        pane.complete(event.text);
        pane.ended = event.reason === "end";
        for (const note of [ENDINGS[event.reason], ...event.notes]) if (note) pane.note(note + (event.reason === "full" ? " Go on continues without the beginning." : ""));
      }
    }
    if (!finished) throw new Problem("The server stopped in the middle of the text.");
  } catch (error) {
    if (pane.controller !== controller) return; // another text has begun here
    if (error.name === "AbortError") say(pane, `Stopped after ${count} tokens.`);
    else complain(pane, error);
  }
  if (pane.controller !== controller) return;
  pane.controller = null;
  showButtons();
  if (pane === active) await lookInside();
}

function write() {
  const text = find("beginning").value.trim();
  const chosen = settings.current();
  settings.nextSeed();
  last = { text, settings: chosen };
  if (panes[0].info.translates) return translate(panes, text, chosen, say, complain);
  return Promise.all(panes.map((pane) => start(pane, last)));
}

function goOn() {
  const chosen = settings.current();
  settings.nextSeed();
  return Promise.all(panes.filter((pane) => pane.tokens.length && !pane.ended).map((pane) => start(pane, { ids: pane.ids, settings: chosen })));
}

// Put a candidate where the bars are, and go on from it.
function pick(candidate) {
  const { pane, place } = bars.at;
  const ids = pane.ids.slice(0, place);
  if (candidate.id === pane.info.end_id) {
    pane.controller?.abort();
    pane.controller = null;
    pane.begin(pane.tokens.slice(0, place), 0);
    pane.ended = true;
    pane.note("You ended the text here.");
    showButtons();
    return lookInside();
  }
  const known = { written: true, put: true, probability: candidate.probability, likeliest: bars.rows.map((row) => row.candidate) };
  const chosen = settings.current();
  settings.nextSeed();
  return start(pane, { ids: [...ids, candidate.id], settings: chosen }, { place, known });
}

function stop() { panes.forEach((pane) => pane.controller?.abort()); }

// ---- looking inside

function showWritten(pane) {
  const place = pane.chosen ?? pane.tokens.length - 1;
  const token = pane.tokens[place];
  if (!token?.likeliest) return false;
  bars.show(token.likeliest, token.id, `after “${pane.before(place)}” the model wrote “${pane.shown(place)}”`, { pane, place });
  return true;
}

// Bars, maps and lens, for the chosen token or for the end of the text.
async function lookInside(onlyBars = false) {
  const pane = active;
  if (!pane || pane.info.translates || pane.busy) return;
  find("models-title").textContent = panes.length > 1 ? "The models" : "The model";
  heads.resize(pane.info.layers, pane.info.heads);
  const place = pane.chosen ?? pane.tokens.length;
  const ids = pane.ids.slice(0, place);
  const model = pane.info.model;
  if (!pane.tokens.length) return;
  const outdated = () => pane !== active || pane.busy || place !== (pane.chosen ?? pane.tokens.length); // an answer about an earlier choice or text
  if (pane.chosen === null || onlyBars || !showWritten(pane)) {
    if (!ids.length) bars.clear("The first token has nothing before it.");
    else await guarded(pane, async () => {
      const data = await askFor.likeliest("likeliest", { model, ids, settings: settings.current() });
      if (!data || outdated()) return;
      const ended = pane.ended && place === pane.tokens.length;
      const there = ended ? pane.info.end_id : (pane.tokens[place]?.id ?? null);
      const what = ended ? " the text ended" : there === null ? "" : `; the text has “${pane.shown(place)}”`;
      bars.show(data.likeliest, there, `after “${pane.before(place)}”${what}`, { pane, place });
    });
  }
  if (onlyBars) return;
  if (!pane.info.inside) {
    heads.set(null);
    showLens([]);
    find("attention-says").textContent = find("lens-where").textContent = "This needs chapter 12 and a GPT of pre-norm blocks, and this model is another one.";
    return;
  }
  await guarded(pane, async () => {
    const data = pane.map ?? (await askFor.attention("attention", { model, ids: pane.ids }));
    if (!data || active !== pane || pane.busy) return;
    pane.map = data;
    heads.set(data);
    shade();
  }, (sentence) => { heads.set(null); find("attention-says").textContent = sentence; });
  await guarded(pane, async () => {
    const data = ids.length ? await askFor.lens("lens", { model, ids }) : { layers: [] };
    if (!data || outdated()) return;
    showLens(data.layers, pane.tokens[place]?.id ?? null);
    find("lens-where").textContent = ids.length ? `what each layer would say after “${pane.before(place)}”` : "The first token has nothing before it.";
  }, (sentence) => { showLens([]); find("lens-where").textContent = sentence; });
}

async function guarded(pane, work, say = (sentence) => pane.note(sentence, "problem")) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (!pane.busy) say(error.message); // otherwise it is about an earlier text
  }
}

function shade() {
  if (!active) return;
  const place = pointed ?? active.chosen;
  const weights = place === null || !active.map ? null : heads.row(place);
  for (const pane of panes) pane.shade(pane === active ? place : null, pane === active ? weights : null);
  if (place === null || !weights) {
    if (active.info.inside) find("attention-says").textContent = "Point at a token of the text to see which tokens this head looks at.";
    return;
  }
  const most = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= 0.01);
  find("attention-says").textContent = `“${active.shown(place)}” looks at ${most.map(([weight, i]) => `“${active.shown(i)}” ${Math.round(100 * weight)} %`).join(", ")}`;
}

function activate(pane) {
  if (pane === active) return false;
  active = pane;
  panes.forEach((other) => other.element.classList.toggle("active", other === pane && panes.length > 1));
  return true;
}

// ---- what is shown

function showButtons() {
  const busy = panes.some((pane) => pane.busy);
  find("stop").disabled = !busy;
  find("go-on").disabled = busy || !panes.some((pane) => pane.tokens.length && !pane.ended);
  document.documentElement.classList.toggle("busy", busy);
}

// A screen reader reads the status, and not the pace, which changes with every token.
function say(pane, sentence, place = "status") {
  find("status").textContent = find("pace").textContent = "";
  find(place).textContent = sentence && panes.length > 1 ? `${pane.info.name}: ${sentence}` : sentence;
}

function complain(pane, error) {
  if (!(error instanceof Problem)) throw error;
  pane.note(error.message, "problem");
  say(pane, "");
}

function keepInView(element) {
  const { bottom } = element.getBoundingClientRect();
  if (bottom > innerHeight && bottom < innerHeight + 90) element.scrollIntoView({ block: "end" });
}

function addPane(info) {
  const pane = new Pane(info, {
    point(from, place) {
      if (place === null && from !== active) return;
      pointed = place;
      if (activate(from)) lookInside();
      shade();
    },
    choose(from) {
      if (activate(from) || !from.busy) lookInside();
      if (from.busy) showWritten(from);
      shade();
    },
  });
  panes.push(pane);
  find("texts").append(pane.element);
  find("texts").classList.toggle("two", panes.length > 1);
  const about = document.createElement("div");
  about.append(...info.about.map((sentence) => Object.assign(document.createElement("p"), { textContent: sentence })));
  find("about").append(about);
  return pane;
}

async function compare() {
  const name = find("compare").value, status = find("compare-status");
  for (const pane of panes.splice(1)) { pane.controller?.abort(); pane.element.remove(); find("about").lastChild.remove(); }
  find("texts").classList.remove("two");
  activate(panes[0]);
  status.textContent = "";
  if (!name) return lookInside();
  status.textContent = "Loading … This can take a minute, because your exercises that it uses are tested first.";
  try {
    const info = await ask("open", { model: name });
    if (find("compare").value !== name) return;
    const differs = info.tokenizer !== panes[0].info.tokenizer && !info.translates;
    status.textContent = differs ? "The tokenizers differ, so the same seed draws other tokens." : "";
    panes[0].element.classList.add("active");
    const pane = addPane(info);
    if (!last) return;
    await (info.translates ? translate([pane], last.text, last.settings, say, complain) : start(pane, last));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    status.textContent = error.message;
    find("compare").value = "";
  }
}

// ---- beginning

async function begin() {
  beginTheme();
  let info;
  try {
    info = await ask("model");
  } catch (error) {
    find("status").textContent = error.message;
    return;
  }
  find("model-name").textContent = find("model-name").title = info.name;
  document.title = `${info.name} · Headway play`;
  let waiting = 0;
  settings.begin(info.settings, info.longest, () => { clearTimeout(waiting); waiting = setTimeout(() => lookInside(true), 80); });
  find("compare").append(...info.others.map((name) => new Option(name, name)));
  if (matchMedia("(max-width: 60rem)").matches) find("settings").open = false;
  if (info.translates) {
    document.documentElement.classList.add("translates");
    find("beginning-label").textContent = "A sentence to translate";
    find("write").textContent = "Translate";
    find("settings-title").textContent = "Settings";
  }
  activate(addPane(info));
  heads.resize(info.layers, info.heads);
  heads.set(null);
  find("composer").addEventListener("submit", (event) => { event.preventDefault(); write(); });
  find("beginning").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    write();
  });
  find("go-on").addEventListener("click", goOn);
  find("stop").addEventListener("click", stop);
  find("compare").addEventListener("change", compare);
  document.documentElement.dataset.ready = "";
}

begin();
