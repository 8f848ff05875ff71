// What an operator may have the router do: asked for by typing a name, and told what came of it.

import { get, post } from "./api.js";
import { learnOptions } from "./commands.js";
import { count } from "./numbers.js";
import { trouble } from "./parts.js";
import { h, morph } from "./ui.js";

let rights = null;

/** Ask once who is logged in; until it is known, nothing can be done. */
export async function learnRights() {
  rights = await get("me").catch(() => null);
  learnOptions(rights?.options);
  return rights;
}

export const isOperator = () => Boolean(rights?.operator);
export const mayShowBodies = () => Boolean(rights?.bodies);

/** Have something done after the name was typed. `then` is called when it was. */
export function act(path, { title, text, confirm, verb, level = "primary", fields = {}, then }) {
  const said = h("div", {});
  const sent = { ...fields };
  const name = h("input", { id: "confirm-name", autocomplete: "off", spellcheck: "false", oninput: () => { go.disabled = name.value !== confirm; } });
  const reason = h("input", { id: "confirm-reason", maxlength: 200 });
  const go = h("button", { class: level, disabled: true }, verb);
  const dialog = h("dialog", { class: "confirm", "aria-label": title },
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        const done = await post(path, { confirm: name.value, reason: reason.value, ...sent });
        morph(said, h("p", { class: "notice good", role: "status" }, told(done)));
        go.hidden = true;
        close.textContent = "Close";
        then?.();
      } catch (error) {
        if (error.code === "changed") { // while the name was typed; whoever presses again has read that
          delete sent.count;
          error.hint = "Press again to remove what it has by then.";
        }
        morph(said, trouble(error));
        go.disabled = false;
      }
    } },
    h("h2", {}, title), h("p", {}, text),
    h("label", { for: "confirm-name" }, h("span", {}, "Type ", h("b", {}, confirm), " to confirm"), name),
    h("label", { for: "confirm-reason" }, "Why, for the journal (may be empty)", reason), said,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go)));
  const close = dialog.querySelector("button[type=button]");
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  name.focus();
}

function told({ outcome, count: n, changed, after_restart: later }) {
  const parts = [`✓ ${outcome}`];
  if (n !== null && n !== undefined) parts.push(`(${count(n)})`);
  if (changed?.length) parts.push(`changed: ${changed.join(", ")}`);
  if (later?.length) parts.push(`after a restart: ${later.join(", ")}`);
  return parts.join(" ");
}
