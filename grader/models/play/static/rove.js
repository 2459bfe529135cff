// Arrow keys move inside a group of buttons; Tab enters and leaves the group.

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

// `columns` is the length of a row, for the keys up and down; without it they move as left and right do.
export function rove(group, selector, columns = () => 1) {
  group.addEventListener("keydown", (event) => {
    const items = [...group.querySelectorAll(selector)];
    const at = items.indexOf(document.activeElement);
    const steps = { ...STEPS, ArrowDown: columns(), ArrowUp: -columns(), Home: -at, End: items.length - 1 - at };
    if (at < 0 || !(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = items[at + steps[event.key]];
    if (next) enter(group, selector, next).focus();
  });
}

// Only this one can be reached with Tab.
export function enter(group, selector, item) {
  group.querySelectorAll(`${selector}[tabindex="0"]`).forEach((other) => { other.tabIndex = -1; });
  item.tabIndex = 0;
  return item;
}
