// Optional: finds people by name, expands or collapses all sections, and expands the section that a link leads to.
const people = [...document.querySelectorAll(".person")];
const form = document.getElementById("find");
const box = document.getElementById("name");
const found = document.getElementById("found");

function find() {
  const wanted = box.value.trim().toLowerCase();
  let many = 0;
  for (const person of people) {
    person.hidden = !person.querySelector("h3").textContent.toLowerCase().includes(wanted);
    many += !person.hidden;
  }
  found.textContent = wanted ? `${many} of ${people.length} people` : "";
}

function expandTarget() {
  const target = document.getElementById(location.hash.slice(1));
  const person = target && target.closest(".person");
  if (!person) return;
  person.hidden = false;
  person.open = true;
  person.querySelector("summary").focus();
}

form.hidden = false;
form.addEventListener("submit", event => event.preventDefault());
box.addEventListener("input", find);
document.getElementById("open").addEventListener("click", () => people.forEach(person => { person.open = person.open || !person.hidden; }));
document.getElementById("close").addEventListener("click", () => people.forEach(person => { person.open = false; }));
addEventListener("hashchange", expandTarget);
find();
expandTarget();
