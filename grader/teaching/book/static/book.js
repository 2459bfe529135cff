// Features that need a script: the search, light and dark, the contents on a small screen. The book can be read without scripts.
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
const showMenu = (open) => {
  find("book-chapters").classList.toggle("open", open);
  menu.setAttribute("aria-expanded", open);
};
menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") !== "true"));
find("book-chapters").addEventListener("click", (event) => event.target.closest("a") && showMenu(false));

// boxes that are wider than the page can be scrolled with the arrow keys, too
const reachable = () => document.querySelectorAll("main pre, main .scroll").forEach((box) => {
  if (box.scrollWidth > box.clientWidth) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "wider than the page: scroll sideways");
  } else {
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

const folded = (text) => text.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, "");

// Each word of the query must begin a word of the entry (after a capital or an underscore counts); titles weigh most.
function scored(entry, words) {
  const title = folded(entry[0]);
  const all = folded(`${entry[0]} ${entry[1]} ${entry[3]}`);
  let score = 0;
  for (const word of words) {
    if (title === word) score += 60;
    else if (title.startsWith(word)) score += 30;
    else if (title.includes(word)) score += 15;
    else {
      const at = all.search(new RegExp(`(^|[^a-z0-9])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`));
      if (at < 0) return 0;
      score += 1 + 4 / (1 + at / 200);
    }
  }
  return score + (entry[1].endsWith("exercise") ? 2 : 0);
}

function excerpt(text, word) {
  const at = Math.max(0, folded(text).indexOf(word));
  const start = at < 60 ? 0 : text.indexOf(" ", at - 50) + 1;
  const end = text.length <= start + 140 ? text.length : text.lastIndexOf(" ", start + 140);
  return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
}

function show(words) {
  const found = window.headwayIndex.map((entry) => [scored(entry, words), entry]).filter(([score]) => score > 0);
  found.sort((a, b) => b[0] - a[0]);
  const say = (tag, name, text) => Object.assign(document.createElement(tag), { className: name, textContent: text });
  const links = found.slice(0, SHOWN).map(([, [title, where, address, text]]) => {
    const link = Object.assign(document.createElement("a"), { href: address });
    link.append(say("strong", "", title), say("span", "where", where), say("span", "excerpt", excerpt(text, words[0])));
    return link;
  });
  const count = found.length === 1 ? "1 result" : found.length > SHOWN ? `${found.length} results, the first ${SHOWN}:` : `${found.length} results`;
  const status = Object.assign(say("p", "count", found.length ? count : "No results."), { role: "status" });
  results.replaceChildren(status, ...links);
  results.hidden = false;
  chosen = -1;
}

async function search() {
  const words = folded(query.value).split(/\s+/).filter(Boolean);
  if (!words.length) { close(); return; }
  await load();
  if (folded(query.value).split(/\s+/).filter(Boolean).join(" ") === words.join(" ")) show(words);
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
