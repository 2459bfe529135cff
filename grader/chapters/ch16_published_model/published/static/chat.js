// The conversation, and the inside of the model for a token of it.

import { showLens } from "./inside.js";
import { enter, rove } from "./rove.js";
import { ask, latest, Problem, stream } from "./stream.js";
import { beginTheme } from "./theme-button.js";

const find = (id) => document.getElementById(id);
const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
const askInside = latest();

let messages = [];
let controller = null; // while an answer is written
let shape = [0, 0]; // blocks and heads
let inside = null; // what the server said about a token

const say = (sentence) => { find("status").textContent = sentence; };

// ---- the conversation

function show(role, text) {
  const element = make("div", `message ${role}`, text);
  find("conversation").append(element);
  element.scrollIntoView({ block: "nearest" });
  return element;
}

function busy(on) {
  document.documentElement.classList.toggle("busy", on);
  find("stop").disabled = !on;
  find("send").disabled = on;
}

async function send() {
  const question = find("question").value.trim();
  if (!question || controller) return;
  find("question").value = "";
  const system = find("system").value.trim();
  if (!messages.length && system) {
    messages.push({ role: "system", content: system });
    show("system", `System message: ${system}`);
  }
  const asked = [...messages, { role: "user", content: question }];
  const elements = [show("user", question), show("assistant", "")];
  const mine = (controller = new AbortController());
  let written = "", ended = false;
  busy(true);
  say("Writing …");
  let says = "";
  try {
    for await (const event of stream("answer", { messages: asked, temperature: Number(find("temperature").value) }, mine.signal)) {
      ended = event.event === "end";
      if (ended) break;
      written += event.text;
      elements[1].textContent = written;
      find("conversation").scrollTop = find("conversation").scrollHeight;
    }
    if (!ended) throw new Problem("The server stopped in the middle of the answer.");
  } catch (error) {
    if (controller !== mine) return; // another conversation has begun
    if (error.name === "AbortError") says = "Stopped.";
    else if (error instanceof Problem) show("problem", error.message);
    else throw error;
  }
  if (controller !== mine) return;
  controller = null;
  busy(false);
  say(says);
  if (written) {
    messages = [...asked, { role: "assistant", content: written }];
    await lookInside(null);
  } else elements[1].remove();
}

function reset() {
  controller?.abort();
  controller = null;
  messages = [];
  inside = null;
  busy(false);
  say("");
  find("conversation").replaceChildren();
  find("tokens").hidden = find("choice").hidden = find("lens").hidden = true;
  find("looked").textContent = "After an answer, choose a token here to see where the heads looked from it.";
  find("lens-where").textContent = "The likeliest next tokens, if the model stopped after this block.";
  find("question").focus();
}

// ---- the inside

async function lookInside(place) {
  const about = messages;
  let data;
  try {
    data = await askInside("inside", { messages: about, place });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    find("looked").textContent = error.message;
    return;
  }
  if (!data || about !== messages) return;
  const focused = find("tokens").contains(document.activeElement);
  inside = { ...data, weights: Uint8Array.from(atob(data.weights), (c) => c.charCodeAt(0)) };
  find("tokens").replaceChildren(...data.tokens.map(button));
  find("tokens").hidden = find("choice").hidden = false;
  const chosen = enter(find("tokens"), "button", find("tokens").children[data.place]);
  if (focused) chosen.focus();
  if (place === null) find("tokens").scrollTop = find("tokens").scrollHeight;
  showLens(data.layers, data.next, "block");
  const next = data.next === null ? "" : `; the conversation has “${data.tokens[data.place + 1]}”`;
  find("lens-where").textContent = `after “${data.tokens[data.place]}”${next}`;
  shade();
}

function button(text, place) {
  const element = make("button", "token", text);
  element.type = "button";
  element.tabIndex = -1;
  element.setAttribute("aria-pressed", place === inside.place);
  element.classList.toggle("later", place > inside.place);
  element.addEventListener("click", () => { element.focus(); lookInside(place); });
  return element;
}

// The weights of the chosen heads, on average: one for each token up to the chosen one.
function chosenWeights() {
  const [blocks, heads] = shape, length = inside.place + 1, sums = new Array(length).fill(0);
  const pick = (id, count) => (find(id).value === "" ? [...Array(count).keys()] : [Number(find(id).value)]);
  const picked = pick("block", blocks).flatMap((block) => pick("head", heads).map((head) => block * heads + head));
  for (const row of picked) for (let i = 0; i < length; i++) sums[i] += inside.weights[row * length + i] / 255 / picked.length;
  return sums;
}

function shade() {
  if (!inside) return;
  const weights = chosenWeights();
  [...find("tokens").children].forEach((element, i) => {
    element.style.setProperty("--weight", Math.sqrt(weights[i] ?? 0));
    element.title = i in weights ? `${(100 * weights[i]).toFixed(1)} %` : "";
  });
  const most = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= 0.01);
  find("looked").textContent = `“${inside.tokens[inside.place]}” looked at ${most.map(([weight, i]) => `“${inside.tokens[i]}” ${Math.round(100 * weight)} %`).join(", ")}`;
}

// ---- beginning

function showTemperature() {
  const input = find("temperature");
  find("temperature-value").textContent = Number(input.value).toFixed(2);
  input.style.setProperty("--filled", `${(100 * input.value) / input.max}%`);
}

async function begin() {
  beginTheme();
  let info;
  try {
    info = await ask("model");
  } catch (error) {
    say(error.message);
    return;
  }
  find("model-name").textContent = find("model-name").title = info.name;
  document.title = `${info.name} · Headway chat`;
  find("about").append(...info.about.map((sentence) => make("p", "", sentence)));
  shape = [info.blocks, info.heads];
  for (const [id, count, all] of [["block", info.blocks, "all"], ["head", info.heads, "all"]]) {
    find(id).append(new Option(all, ""), ...Array.from({ length: count }, (_, i) => new Option(i + 1, i)));
    find(id).addEventListener("change", shade);
  }
  find("temperature").value = info.temperature;
  find("temperature").addEventListener("input", showTemperature);
  showTemperature();
  rove(find("tokens"), "button");
  find("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  find("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  find("stop").addEventListener("click", () => controller?.abort());
  find("reset").addEventListener("click", reset);
  document.documentElement.dataset.ready = "";
}

begin();
