// Connects the parts of the page: what the user does, what the server answers, and what is shown.

import { Bars, Heads, percent, showLens } from "./inside.js";
import { Pane } from "./pane.js";
import * as settings from "./settings.js";
import { ask, latest, Problem, stream } from "./stream.js";
import { beginTheme } from "./theme-button.js";

const find = (id) => document.getElementById(id);
const askFor = { likeliest: latest(), attention: latest(), lens: latest() };
const ENDINGS = { length: "", end: "The model ended its text here.", full: "" };

const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });

let pane = null; // the text
let pointed = null; // a place in it
const bars = new Bars(pick);
const heads = new Heads(shade);

// ---- writing

async function start(body, put) {
  pane.controller?.abort();
  const controller = (pane.controller = new AbortController());
  if (body.text !== undefined) pane.clear();
  pane.mark(null);
  pane.notes.replaceChildren();
  pane.ended = false;
  say("Writing …");
  showButtons();
  let count = 0, begun = 0, finished = false;
  const pace = () => `${count} tokens, ${Math.round(count / Math.max((performance.now() - begun) / 1000, 0.001))} per second`;
  try {
    for await (const event of stream("write", body, controller.signal)) {
      if (event.event === "begin") {
        pane.begin(event.tokens, event.left_out, put);
        event.notes.forEach((note) => pane.note(note));
        begun = performance.now();
      } else if (event.event === "token") {
        count++;
        const element = pane.append({ ...event, written: true });
        showWritten();
        keepInView(element);
        say(pace(), "pace");
      } else {
        finished = true;
        say(pace());
        pane.complete(event.text);
        pane.ended = event.reason === "end";
        for (const note of [ENDINGS[event.reason], ...event.notes]) if (note) pane.note(note + (event.reason === "full" ? " Go on continues without the beginning." : ""));
      }
    }
    if (!finished) throw new Problem("The server stopped in the middle of the text.");
  } catch (error) {
    if (pane.controller !== controller) return; // another text has begun here
    if (error.name === "AbortError") say(`Stopped after ${count} tokens.`);
    else complain(error);
  }
  if (pane.controller !== controller) return;
  pane.controller = null;
  showButtons();
  await lookInside();
}

function write() {
  const text = find("beginning").value.trim();
  const chosen = settings.current();
  settings.nextSeed();
  return pane.info.translates ? translate(text, chosen) : start({ text, settings: chosen });
}

// The last translation is the first one that is shown.
async function translate(text, chosen) {
  pane.notes.replaceChildren();
  say("Translating …");
  try {
    const { translation, notes } = await ask("translate", { text, settings: chosen });
    const pair = make("dl", "", "pair");
    pair.append(make("dt", "Source"), make("dd", text), make("dt", "Translation"), make("dd", translation || "(nothing)", "target"));
    pane.text.prepend(pair);
    notes.forEach((note) => pane.note(note));
    say("");
  } catch (error) {
    complain(error);
  }
}

function goOn() {
  const chosen = settings.current();
  settings.nextSeed();
  return start({ ids: pane.ids, settings: chosen });
}

// Put a candidate where the bars are, and go on from it.
function pick(candidate) {
  const place = bars.at;
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
  return start({ ids: [...ids, candidate.id], settings: chosen }, { place, known });
}

function stop() { pane.controller?.abort(); }

// ---- looking inside

function showWritten() {
  const place = pane.chosen ?? pane.tokens.length - 1;
  const token = pane.tokens[place];
  if (!token?.likeliest) return false;
  bars.show(token.likeliest, token.id, `after “${pane.before(place)}” the model wrote “${pane.shown(place)}”`, place);
  return true;
}

// Bars, maps and lens, for the chosen token or for the end of the text.
async function lookInside(onlyBars = false) {
  if (!pane || pane.info.translates || pane.busy) return;
  const place = pane.chosen ?? pane.tokens.length;
  const ids = pane.ids.slice(0, place);
  if (!pane.tokens.length) return;
  const outdated = () => pane.busy || place !== (pane.chosen ?? pane.tokens.length); // an answer about an earlier choice or text
  if (pane.chosen === null || onlyBars || !showWritten()) {
    if (!ids.length) bars.clear("The first token has nothing before it.");
    else await guarded(async () => {
      const data = await askFor.likeliest("likeliest", { ids, settings: settings.current() });
      if (!data || outdated()) return;
      const ended = pane.ended && place === pane.tokens.length;
      const there = ended ? pane.info.end_id : (pane.tokens[place]?.id ?? null);
      const what = ended ? " the text ended" : there === null ? "" : `; the text has “${pane.shown(place)}”`;
      bars.show(data.likeliest, there, `after “${pane.before(place)}”${what}`, place);
    });
  }
  if (onlyBars) return;
  if (!pane.info.inside) {
    heads.set(null);
    showLens([]);
    find("attention-says").textContent = find("lens-where").textContent = "This needs chapter 12 and a GPT of pre-norm blocks, and this model is another one.";
    return;
  }
  await guarded(async () => {
    const data = pane.map ?? (await askFor.attention("attention", { ids: pane.ids }));
    if (!data || pane.busy) return;
    pane.map = data;
    heads.set(data);
    shade();
  }, (sentence) => { heads.set(null); find("attention-says").textContent = sentence; });
  await guarded(async () => {
    const data = ids.length ? await askFor.lens("lens", { ids }) : { layers: [] };
    if (!data || outdated()) return;
    showLens(data.layers, pane.tokens[place]?.id ?? null);
    find("lens-where").textContent = ids.length ? `what each layer would say after “${pane.before(place)}”` : "The first token has nothing before it.";
  }, (sentence) => { showLens([]); find("lens-where").textContent = sentence; });
}

async function guarded(work, say = (sentence) => pane.note(sentence, "problem")) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (!pane.busy) say(error.message); // otherwise it is about an earlier text
  }
}

function shade() {
  if (!pane) return;
  const place = pointed ?? pane.chosen;
  const weights = place === null || !pane.map ? null : heads.row(place);
  pane.shade(place, weights);
  if (place === null || !weights) {
    if (pane.info.inside) find("attention-says").textContent = "Point at a token of the text to see which tokens this head looks at.";
    return;
  }
  const most = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= 0.01);
  find("attention-says").textContent = `“${pane.shown(place)}” looks at ${most.map(([weight, i]) => `“${pane.shown(i)}” ${Math.round(100 * weight)} %`).join(", ")}`;
}

// ---- what is shown

function showButtons() {
  find("stop").disabled = !pane.busy;
  find("go-on").disabled = pane.busy || !pane.tokens.length || pane.ended;
  document.documentElement.classList.toggle("busy", pane.busy);
}

// A screen reader reads the status, and not the pace, which changes with every token.
function say(sentence, place = "status") {
  find("status").textContent = find("pace").textContent = "";
  find(place).textContent = sentence;
}

function complain(error) {
  if (!(error instanceof Problem)) throw error;
  pane.note(error.message, "problem");
  say("");
}

function keepInView(element) {
  const { bottom } = element.getBoundingClientRect();
  if (bottom > innerHeight && bottom < innerHeight + 90) element.scrollIntoView({ block: "end" });
}

function addPane(info) {
  pane = new Pane(info, {
    point(place) {
      pointed = place;
      shade();
    },
    choose() {
      if (pane.busy) showWritten();
      else lookInside();
      shade();
    },
  });
  find("texts").append(pane.element);
  find("about").append(...info.about.map((sentence) => make("p", sentence)));
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
  find("model-name").textContent = info.name;
  document.title = `${info.name} · Headway play`;
  let waiting = 0;
  settings.begin(info.settings, info.longest, () => { clearTimeout(waiting); waiting = setTimeout(() => lookInside(true), 80); });
  if (matchMedia("(max-width: 60rem)").matches) find("settings").open = false;
  if (info.translates) {
    document.documentElement.classList.add("translates");
    find("beginning-label").textContent = "A sentence to translate";
    find("write").textContent = "Translate";
    find("settings-title").textContent = "Settings";
  }
  addPane(info);
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
  document.documentElement.dataset.ready = "";
}

begin();
