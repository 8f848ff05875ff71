"use strict";
// Before the first paint; in a file of its own because the policy allows no script inside the page.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing */ }
