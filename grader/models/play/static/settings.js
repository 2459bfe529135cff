// The sliders. A slider at its end `data-off` switches its filter off.

const NAMES = ["temperature", "top_k", "top_p", "min_p", "length"];
const find = (id) => document.getElementById(id);
const decimals = { temperature: 2, top_p: 2, min_p: 2, top_k: 0, length: 0 };

const isOff = (input) => input.dataset.off !== undefined && Number(input.value) === Number(input.dataset.off);

function show(input) {
  const text = isOff(input) ? "off" : Number(input.value).toFixed(decimals[input.id]);
  find(`${input.id}-value`).textContent = text;
  input.setAttribute("aria-valuetext", text);
  const { min, max, value } = input;
  input.style.setProperty("--filled", `${(100 * (value - min)) / (max - min)}%`);
}

export function begin(settings, longest, changed) {
  for (const name of NAMES) {
    const input = find(name);
    if (name === "length") input.max = Math.min(longest, Number(input.max));
    input.value = settings[name] ?? input.dataset.off;
    show(input);
    input.addEventListener("input", () => { show(input); changed(); });
  }
  find("seed").value = settings.seed;
}

export function current() {
  const settings = { seed: find("seed").value === "" ? 0 : Number(find("seed").value) };
  for (const name of NAMES) settings[name] = isOff(find(name)) ? null : Number(find(name).value);
  return settings;
}

// As in the terminal, the text after this one draws with the next seed.
export function nextSeed() {
  const seed = find("seed");
  if (!find("keep-seed").checked) seed.value = (Number(seed.value) + 1) % Number.MAX_SAFE_INTEGER;
}
