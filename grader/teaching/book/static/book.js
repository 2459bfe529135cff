// Features that need a script: light and dark, the contents on a small screen and while scrolling, copying code, the field of the search
// (search.js finds). The book can be read without scripts.
"use strict";

const root = document.documentElement;
const find = (id) => document.getElementById(id);

// light and dark
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
const themeButton = find("book-theme");
const showTheme = () => themeButton.setAttribute("aria-pressed", isDark());
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("headway-theme", root.dataset.theme); } catch { /* then the choice holds for this page only */ }
  showTheme();
});
system.addEventListener("change", showTheme);
showTheme();

// the contents, on a small screen
const menu = find("book-menu");
const sidebar = find("book-chapters");
const showMenu = (open) => {
  sidebar.classList.toggle("open", open);
  menu.setAttribute("aria-expanded", open);
};
menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") !== "true"));
sidebar.addEventListener("click", (event) => event.target.closest("a") && showMenu(false));

// the contents mark the part of the page that is being read
const marks = [...document.querySelectorAll("#book-chapters .outline a")].map((link) => [link, find(decodeURIComponent(link.hash.slice(1)))]).filter(([, part]) => part);
let marked = null;
function bringIntoView(link) {
  const place = link.getBoundingClientRect(), frame = sidebar.getBoundingClientRect();
  if (place.top < frame.top || place.bottom > frame.bottom) sidebar.scrollTop += place.top - frame.top - frame.height / 3;
}
addEventListener("load", () => { const here = sidebar.querySelector("[aria-current]"); if (here) bringIntoView(here); });
function markPart() {
  const line = innerHeight * 0.25;
  const atEnd = scrollY > 0 && innerHeight + scrollY >= root.scrollHeight - 2;
  const [link] = (atEnd ? marks.at(-1) : marks.findLast(([, part]) => part.getBoundingClientRect().top <= line)) ?? [null];
  if (link === marked) return;
  marked?.removeAttribute("aria-current");
  link?.setAttribute("aria-current", "location");
  marked = link;
  if (link) bringIntoView(link);
}
if (marks.length) {
  let waiting = false;
  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; markPart(); }); } };
  ["scroll", "resize", "load"].forEach((event) => addEventListener(event, later, { passive: true }));
}

// what is passed: on the exercises, in the contents, and for each chapter. A page that comes into view again asks for it again.
function showProgress() {
  const { passed, chapters, path } = window.headwayProgress;
  for (const one of document.querySelectorAll("section.exercise, .outline .exercise a, .front p a")) {
    one.classList.toggle("passed", passed.includes(one.id || decodeURIComponent(one.hash.slice(1))));
  }
  for (const place of document.querySelectorAll("[data-chapter]")) {
    const [done, all] = chapters[place.dataset.chapter] ?? [0, 0];
    place.textContent = done ? `${done} of ${all} passed` : "";
  }
  for (const place of document.querySelectorAll("[data-path]")) {
    const chosen = path?.name === place.dataset.path;
    place.classList.toggle("chosen", chosen);
    place.open ||= chosen;
    place.querySelector(".tally").textContent = chosen ? `your path: about ${path.left} of ${path.hours} hours left` : "";
  }
}
function loadProgress() {
  const script = Object.assign(document.createElement("script"), { src: "progress.js", onload: () => { script.remove(); showProgress(); } });
  document.head.append(script);
}
loadProgress();
document.addEventListener("visibilitychange", () => document.hidden || loadProgress());

// code can be copied: of a Python session only what was typed
const typed = (text) => (text.startsWith(">>>") ? text.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line)).map((line) => line.slice(4)).join("\n") : text.replace(/\n$/, "")) + "\n";
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page from a folder may not use the clipboard in every browser
    const field = Object.assign(document.createElement("textarea"), { value: text, className: "off-page" });
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (!done) throw new Error("not copied");
  }
}
for (const code of document.querySelectorAll("main pre.copied")) {
  const box = Object.assign(document.createElement("div"), { className: "copy-box" });
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-label", "Copy this code");
  const said = Object.assign(document.createElement("span"), { className: "off-page" });
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    const focused = document.activeElement;
    const outcome = await copy(typed(code.textContent)).then(() => "Copied", () => "Not copied");
    focused.focus();
    button.textContent = said.textContent = outcome;
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
  });
  code.before(box);
  box.append(code, button, said);
}

// boxes that are wider than the page can be scrolled with the arrow keys, too
const reachable = () => document.querySelectorAll("main pre, main .scroll").forEach((box) => {
  if (box.scrollWidth > box.clientWidth) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "wider than the page: scroll sideways");
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.onscroll ??= () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
  } else {
    box.classList.remove("more");
    ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
  }
});
addEventListener("load", reachable);
addEventListener("resize", reachable);

// the search
const query = find("book-query");
const results = find("book-results");
const SHOWN = 12;
let loading = null;
let chosen = -1;

function load() {
  loading ??= new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src: "search-index.js", onload: done, onerror: failed });
    document.head.append(script);
  });
  return loading;
}

function excerpt(text, words) {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word.slice(0, Math.max(4, word.length - 3)))).filter((at) => at >= 0);
  const at = places.length ? Math.min(...places) : 0;
  const start = at < 60 ? 0 : text.indexOf(" ", at - 50) + 1;
  const end = text.length <= start + 140 ? text.length : text.lastIndexOf(" ", start + 140);
  return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
}

function show(asked) {
  const { hits, instead, missing } = headwaySearch(asked);
  const words = (instead ?? asked).toLowerCase().split(/[^a-z0-9]+/).filter((word) => word.length > 2);
  const say = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text });
  const links = hits.slice(0, SHOWN).map(({ title, where, address, text }) => {
    const link = Object.assign(document.createElement("a"), { href: address });
    link.append(say("strong", "", title), say("span", "where", where), say("span", "excerpt", excerpt(text, words)));
    return link;
  });
  const about = instead ? ` for “${instead}”` : missing ? " with some of the words" : "";
  const count = (hits.length === 1 ? "1 result" : `${hits.length} results`) + about + (hits.length > SHOWN ? `, the first ${SHOWN}:` : "");
  const status = Object.assign(say("p", "count", hits.length ? count : "No results."), { role: "status" });
  results.replaceChildren(status, ...links);
  results.hidden = false;
  chosen = -1;
}

async function search() {
  const asked = query.value.trim();
  if (!asked) { close(); return; }
  await load();
  if (query.value.trim() === asked) show(asked);
}

function close() {
  results.hidden = true;
  results.replaceChildren();
}

function move(step) {
  const links = [...results.querySelectorAll("a")];
  if (!links.length) return;
  chosen = Math.max(-1, Math.min(links.length - 1, links.indexOf(document.activeElement) + step));
  (chosen < 0 ? query : links[chosen]).focus();
}

query.addEventListener("focus", load);
query.addEventListener("input", search);
find("book-search").addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
find("book-search").addEventListener("keydown", (event) => {
  const keys = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Escape: () => { close(); query.focus(); } };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
results.addEventListener("click", (event) => event.target.closest("a") && setTimeout(close));
document.addEventListener("click", (event) => event.target.closest("#book-search") || close());
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, [contenteditable]");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); query.focus(); }
});
