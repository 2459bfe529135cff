// The search: finds the parts of the book that have the words of a query. `headwaySearch(query)` returns the hits, the best first.
// book.js shows them. The index (search-index.js) is loaded when the reader comes to the search field.
"use strict";

const STOP_WORDS = new Set((
  "a about an and any are as at be because between by can could did do does each for from get give had has have how i if in into is it its let me my "
  + "not of on or our should so some than that the their them then there these they this those to us was we were what when where which who why will with would you your"
).split(" "));
const SUFFIXES = [
  ["isations", "is"], ["izations", "is"], ["isation", "is"], ["ization", "is"], ["ational", "at"], ["ations", "at"], ["ation", "at"], ["ators", "at"], ["ator", "at"],
  ["ising", "is"], ["izing", "is"], ["ised", "is"], ["ized", "is"], ["ises", "is"], ["izes", "is"], ["ise", "is"], ["ize", "is"], ["ates", "at"], ["ated", "at"],
  ["ating", "at"], ["ate", "at"], ["iers", "i"], ["ies", "i"], ["ied", "i"], ["ings", ""], ["ing", ""], ["edly", ""], ["ed", ""], ["ers", ""], ["er", ""],
  ["ences", "enc"], ["ence", "enc"], ["ents", "ent"], ["ally", "al"], ["ly", ""], ["sses", "ss"], ["es", ""], ["s", ""], ["e", ""], ["y", "i"],
];
const MOST = { title: 8, exact: 40, chapter: 12, exercise: 6, glossary: 1, phraseInTitle: 30, phrase: 6, prefix: 0.6, begun: 40, guide: 0.2 };

// Returns the words of a text in lower case: of scaled_dot_product_attention and MultiHeadAttention the name and its parts.
function wordsOf(text) {
  const plain = text.replaceAll("√", " sqrt ").normalize("NFD").replace(/[\u0300-\u036f]/g, "");
  const found = [];
  for (const [name] of plain.matchAll(/[A-Za-z0-9_]+/g)) {
    const parts = name.split("_").flatMap((part) => part.split(/(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])/)).filter(Boolean);
    if (parts.length !== 1 || parts[0] !== name) found.push(name.toLowerCase());
    if (parts.length > 1 || parts[0] === name || !found.length) found.push(...parts.map((part) => part.toLowerCase()));
  }
  return found;
}

// Returns what trained, training and trains have in common.
function stem(word) {
  for (const [suffix, rest] of SUFFIXES) {
    if (word.endsWith(suffix) && word.length - suffix.length >= 3 && !(suffix === "s" && /(ss|us|is)$/.test(word))) {
      const left = word.slice(0, -suffix.length);
      if (!/[aeiouy]/.test(left)) continue;
      return left.replace(/([bdfgmnprt])\1$/, "$1") + rest;
    }
  }
  return word;
}

// Returns the number of letters to change, leave out, add or exchange; more than `limit` gives limit + 1.
function distance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before = [], row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    if (Math.min(...next) > limit) return limit + 1;
    [before, row] = [row, next];
  }
  return row[b.length];
}

// Reads the index once: for each entry the weight of each stem, and its stems in order for phrases.
function prepare(entries) {
  const spread = new Map(), spelling = new Map();
  const prepared = entries.map(([title, where, address, text]) => {
    const weights = new Map();
    const read = (words, weight, most) => {
      const counts = new Map();
      for (const word of words) {
        const root = stem(word);
        counts.set(root, (counts.get(root) ?? 0) + 1);
        spelling.set(word, (spelling.get(word) ?? 0) + 1);
      }
      for (const [root, count] of counts) weights.set(root, (weights.get(root) ?? 0) + weight * Math.min(count / (count + 1) * 2, most));
      return ` ${words.map(stem).join(" ")} `;
    };
    const inTitle = read(wordsOf(title), MOST.title, 1), inWhere = read(wordsOf(where), 1, 1), inText = read(wordsOf(text), 1, 1.8);
    for (const root of weights.keys()) spread.set(root, (spread.get(root) ?? 0) + 1);
    return { entry: { title, where, address, text }, weights, inTitle, inText: inWhere + inText };
  });
  const rare = (root) => Math.log(1 + entries.length / (1 + (spread.get(root) ?? 0)));
  return { prepared, spelling, rare, roots: [...spread.keys()] };
}

// Returns for one word of the query the stems that it stands for, each with a share of its weight; of an unknown word, the beginning of longer ones.
function meant(index, word, last) {
  const root = stem(word);
  const known = index.roots.includes(root) ? [[root, 1]] : [];
  const longer = last || !known.length ? index.roots.filter((other) => other !== root && other.startsWith(word) && word.length > 1).map((other) => [other, MOST.prefix]) : [];
  return [...known, ...longer];
}

// Returns the known word that an unknown word probably means, or null.
function corrected(index, word) {
  const limit = word.length < 4 ? 0 : word.length < 7 ? 1 : 2;
  let best = null, least = limit + 1, most = 0;
  for (const [other, count] of index.spelling) {
    if (other.length < 3 || /^\d/.test(other)) continue;
    const far = distance(word, other, Math.min(limit, least));
    if (far < least || (far === least && far <= limit && count > most)) [best, least, most] = [other, far, count];
  }
  return best;
}

function score(index, one, terms, phrase, query, typed) {
  let sum = 0, met = 0;
  for (const stems of terms) {
    let best = 0;
    for (const [root, share] of stems) best = Math.max(best, share * (one.weights.get(root) ?? 0) * index.rare(root));
    if (best > 0) met++;
    sum += best;
  }
  if (!met) return null;
  const { title, where, address } = one.entry;
  const name = title.toLowerCase().replace(/^chapter \d+: /, "");
  if (name === typed || name === query || name.replaceAll("_", " ") === query) sum += MOST.exact;
  if (terms.length > 1 && one.inTitle.includes(phrase)) sum += MOST.phraseInTitle;
  else if (terms.length > 1 && one.inText.includes(phrase)) sum += MOST.phrase;
  if (met === terms.length && /^\d+ /.test(where) && !address.includes("#") && one.inTitle.includes(phrase)) sum += MOST.chapter;
  if (where.endsWith("exercise") && one.inTitle.includes(phrase)) sum += MOST.exercise;
  if (where.endsWith("exercise") && name !== typed && name.startsWith(typed)) sum += MOST.begun * typed.length / name.length; // it is being typed
  if (where.endsWith("about the kit") && !one.inTitle.includes(phrase)) sum *= MOST.guide; // a table there has every exercise's name
  return { entry: one.entry, met, sum };
}

let searchIndex = null;

// Returns { hits, instead }: the entries, the best first, and the words that were searched for where the query has none that are known.
globalThis.headwaySearch = (query) => {
  searchIndex ??= prepare(globalThis.headwayIndex);
  const index = searchIndex;
  let words = wordsOf(query);
  const content = words.filter((word) => !STOP_WORDS.has(word));
  if (content.length) words = content;
  let instead = null;
  let terms = words.map((word, at) => meant(index, word, at === words.length - 1 && /\w$/.test(query)));
  if (terms.some((stems) => !stems.length)) {
    const spelled = words.map((word, at) => (terms[at].length ? word : corrected(index, word) ?? word));
    if (spelled.some((word, at) => word !== words[at])) instead = spelled.join(" ");
    words = spelled;
    terms = words.map((word) => meant(index, word, false));
  }
  const phrase = ` ${words.map(stem).join(" ")} `;
  const asked = words.join(" "), typed = query.trim().toLowerCase(); // "cross_entropy" is three words
  const found = index.prepared.map((one) => score(index, one, terms, phrase, asked, typed)).filter(Boolean);
  const most = Math.max(0, ...found.map((one) => one.met));
  const isName = index.prepared.some(({ entry }) => entry.where.endsWith("exercise") && entry.title.toLowerCase() === typed);
  const isLast = ({ entry }) => isName && entry.where.endsWith("about the kit"); // "write" is an exercise, and in titles there
  const hits = found.filter((one) => one.met === most).sort((a, b) => isLast(a) - isLast(b) || b.sum - a.sum).map((one) => one.entry);
  return { hits, instead: hits.length ? instead : null, missing: most < terms.length };
};
