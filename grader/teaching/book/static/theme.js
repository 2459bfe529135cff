// Before anything is drawn: are there scripts, and did this reader choose light or dark?
document.documentElement.classList.add("scripts");
try {
  const chosen = localStorage.getItem("headway-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing follows the system */ }
