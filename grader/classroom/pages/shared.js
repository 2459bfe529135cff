// Optional: sorts a table by the column whose heading is pressed, and shows only the people that are searched for.
function value(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

function compare(a, b) {
  if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
  return typeof a === "number" ? a - b : a.localeCompare(b);
}

function sort(table, heading) {
  const column = heading.cellIndex;
  const above = heading.parentElement.cells;
  const numbers = [...table.tBodies[0].rows].some(row => typeof value(row, column) === "number");
  const first = numbers ? "descending" : "ascending";
  const other = numbers ? "ascending" : "descending";
  const order = heading.ariaSort === first ? other : first;
  const sign = order === "ascending" ? 1 : -1;
  const sorted = [...table.tBodies[0].rows].sort((a, b) => sign * compare(value(a, column), value(b, column)));
  for (const cell of above) cell.removeAttribute("aria-sort");
  heading.ariaSort = order;
  table.tBodies[0].append(...sorted);
}

for (const table of document.querySelectorAll(".sortable")) {
  table.tHead.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (button) sort(table, button.closest("th"));
  });
}

// Capital letters and accents make no difference.
function fold(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

// `words` has a text for each person; each of `lists` has the elements about them, in the same order.
function offerSearch(words, lists) {
  const form = document.getElementById("find");
  const box = document.getElementById("name");
  const found = document.getElementById("found");
  const texts = words.map(fold);
  const find = () => {
    const wanted = fold(box.value.trim());
    let many = 0;
    texts.forEach((text, place) => {
      const hidden = !text.includes(wanted);
      many += !hidden;
      for (const list of lists) list[place].hidden = hidden;
    });
    found.textContent = wanted ? `${many} of ${texts.length} people` : "";
  };
  form.hidden = false;
  form.addEventListener("submit", event => { event.preventDefault(); find(); });
  let timer;
  box.addEventListener("input", () => {  // a large map takes long to draw, so it is drawn once the typing stops
    clearTimeout(timer);
    timer = setTimeout(find, 200);
  });
  find();
}
