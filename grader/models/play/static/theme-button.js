// Light or dark, by the system or by the reader's choice; theme.js restores the choice before the page is drawn.

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

export function beginTheme() {
  const button = document.getElementById("theme");
  const show = () => button.setAttribute("aria-pressed", isDark());
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("headway-theme", root.dataset.theme); } catch { /* then the choice holds for this page only */ }
    show();
  });
  system.addEventListener("change", show);
  show();
}
