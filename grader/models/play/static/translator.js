// A translator: the source and its translation, the last one first.

import { ask } from "./stream.js";

const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });

export async function translate(panes, text, settings, say, complain) {
  await Promise.all(panes.map(async (pane) => {
    pane.notes.replaceChildren();
    say(pane, "Translating …");
    try {
      const { translation, notes } = await ask("translate", { model: pane.info.model, text, settings });
      const pair = make("dl", "", "pair");
      const target = make("dd", translation || "(nothing)", "target");
      pair.append(make("dt", "Source"), make("dd", text), make("dt", "Translation"), target);
      pane.text.prepend(pair);
      notes.forEach((note) => pane.note(note));
      say(pane, "");
    } catch (error) {
      complain(pane, error);
    }
  }));
}
