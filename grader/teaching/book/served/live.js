// Shows what you have done beside each exercise and on the front page, and follows the verdicts of a watch. Only `headway book` serves this script.
"use strict";

const EVERY = 1500; // milliseconds between two requests while the page is visible
const make = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });
const MARKS = { passed: "✓", failed: "✗", changed: "↻", untried: "○" };
const spoken = make("p", "off-page");
spoken.setAttribute("role", "status");
document.body.append(spoken);

const sentence = ({ state, says, was }) => ({
  passed: "Passed.",
  failed: `Failed. ${says}`,
  changed: `Changed since its last test${{ passed: ", which it passed", failed: ", which it failed" }[was] ?? ""}.`,
  untried: says || "Not tried yet.",
})[state];

function place(parent, name, tag, where) {
  let node = parent.querySelector(`:scope > .${name}`);
  if (!node) where(node = make(tag, name));
  return node;
}

function showExercises(exercises) {
  for (const card of document.querySelectorAll("section.exercise")) {
    const now = exercises[card.id];
    if (!now) continue;
    const line = place(card, "verdict", "p", (node) => card.querySelector("h3").after(node));
    const before = line.dataset.said;
    line.dataset.state = now.state;
    line.dataset.said = sentence(now);
    const mark = make("span", "mark", MARKS[now.state]);
    mark.setAttribute("aria-hidden", "true");
    line.replaceChildren(mark, ` ${sentence(now)}`);
    if (before !== undefined && before !== sentence(now)) spoken.textContent = `${card.id}: ${sentence(now)}`;
  }
  for (const link of document.querySelectorAll("#book-chapters .exercise a")) {
    const now = exercises[link.hash.slice(1)];
    if (now) link.dataset.mark = now.state === "untried" ? "" : MARKS[now.state];
  }
}

function showFront({ earned, points, share, begun, chapters, exercises, next }) {
  const lead = document.querySelector("main .lead");
  if (!lead || !document.querySelector(".front")) return;
  const box = place(lead.parentElement, "done", "section", (node) => lead.after(node));
  box.setAttribute("aria-label", "What you have done");
  const bar = Object.assign(document.createElement("progress"), { value: share, max: 1 });
  bar.setAttribute("aria-label", "Points");
  const tally = make("p", "tally", `You have ${earned} of ${points} points. `);
  const what = make("p", "what");
  if (next) {
    const link = Object.assign(make("a", "code"), { href: next.address });
    link.append(make("code", "", next.name));
    what.append(begun ? "Next: " : "Begin with the big picture, and then with ", link, `. ${next.promise}`);
  } else what.append("You have passed every exercise.");
  const focused = box.contains(document.activeElement);
  box.replaceChildren(tally, bar, what);
  if (focused) box.querySelector("a")?.focus();
  for (const item of document.querySelectorAll(".front li[data-chapter]")) {
    const chapter = chapters[item.dataset.chapter];
    if (!chapter) continue;
    const line = place(item, "done", "p", (node) => item.querySelector("a").after(node));
    line.dataset.state = chapter.complete ? "passed" : "";
    line.textContent = `${chapter.complete ? "✓ " : ""}${chapter.earned}/${chapter.points} points, ${chapter.passed} of ${chapter.exercises} passed`;
  }
  for (const link of document.querySelectorAll(".front p > a.code")) {
    const now = exercises[link.hash.slice(1)];
    if (now) link.dataset.mark = now.state === "untried" ? "" : MARKS[now.state];
  }
}

let shown = "";
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch("progress.json").then((response) => response.text()).catch(() => shown); // the server may have stopped
  if (answer === shown) return;
  shown = answer;
  const now = JSON.parse(answer);
  if (!now.exercises) return;
  showExercises(now.exercises);
  showFront(now);
}

refresh();
setInterval(refresh, EVERY);
document.addEventListener("visibilitychange", refresh);
