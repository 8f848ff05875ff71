// Keys: `g` and a letter goes to a page, `/` searches, `?` says so.

import { h } from "./ui.js";

const WAIT_MS = 1_200;

export function keys(pages, button) {
  const help = dialog(pages);
  document.body.append(help);
  button.addEventListener("click", () => help.showModal());
  let going = 0;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (Date.now() < going) {
      going = 0;
      const page = pages.find(({ key }) => key === event.key);
      if (page) location.hash = `#/${page.path}`;
    } else if (event.key === "g") going = Date.now() + WAIT_MS;
    else if (event.key === "?") help.showModal();
    else if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
}

const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable]");

function dialog(pages) {
  const row = (pressed, text) => h("div", {}, h("dt", {}, pressed.map((key) => h("kbd", {}, key))), h("dd", {}, text));
  return h("dialog", { class: "keys", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, pages.map(({ key, title }) => row(["g", key], title)), row(["/"], "search on this page"), row(["?"], "this list"), row(["Esc"], "close")),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")));
}
