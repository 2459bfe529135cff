// Runs before the page is drawn: marks that scripts work, and restores the reader's choice of light or dark.
document.documentElement.classList.add("scripts");
try {
  const chosen = localStorage.getItem("headway-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser without storage follows the system */ }
