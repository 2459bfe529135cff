// Optional: expands or collapses all sections, and expands the section that a link leads to.
const people = [...document.querySelectorAll(".person")];
const rows = [...document.querySelectorAll(".heat tbody tr")];
offerSearch(people.map(person => `${person.querySelector("h3").textContent} ${person.dataset.find}`), rows.length ? [people, rows] : [people]);

function expandTarget() {
  const target = document.getElementById(location.hash.slice(1));
  const person = target && target.closest(".person");
  if (!person) return;
  person.hidden = false;
  person.open = true;
  person.querySelector("summary").focus();
}

document.getElementById("open").addEventListener("click", () => people.forEach(person => { person.open = person.open || !person.hidden; }));
document.getElementById("close").addEventListener("click", () => people.forEach(person => { person.open = false; }));
addEventListener("hashchange", expandTarget);
expandTarget();
