// What happened, newest first.

import { get } from "../api.js";
import { clock, some } from "../numbers.js";
import { empty, head, pick, search, SIGN, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const LEVELS = { "": "every level", warning: "warnings and errors", error: "errors" };
const LIMIT = 100;

function open(main) {
  const wanted = { level: "", kind: "" };
  let isPaused = false;
  const body = h("div", { class: "stack" });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "▶ go on" : "▮▮ pause";
    if (!isPaused) refresh.now();
  } }, "▮▮ pause");
  const set = (changes) => { Object.assign(wanted, changes); refresh.now(); };
  main.append(
    head("Facts", { command: "headgate journal tail --follow", json: "/api/v1/facts" }),
    h("p", { class: "quiet" }, "What happened, newest first. At most a hundred a second are kept here; all of them are in the journal."),
    h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search("kind, like SessionSlowed", "", (kind) => set({ kind })), pick("Level", LEVELS, "", (level) => set({ level })), pause),
    body);
  const refresh = new Refresh(async () => {
    if (isPaused) return null;
    const found = await get("facts", { level: wanted.level, limit: LIMIT });
    const rows = found.rows.filter(({ kind }) => kind.toLowerCase().includes(wanted.kind.toLowerCase()));
    return () => morph(body,
      found.skipped ? h("p", { class: "quiet" }, `${some(found.skipped, "fact")} came too fast to be kept here.`) : null,
      h("section", { class: "card", "aria-label": "Facts, newest first" }, rows.length ? factLines(rows)
        : empty(wanted.level || wanted.kind ? "Nothing of that kind has happened." : "Nothing has happened yet. Connect a client, and it is told here.")));
  }, (error) => morph(body, trouble(error)), 1.5);
  return { leave: () => refresh.stop() };
}

export function factLines(rows) {
  return h("ol", { class: "facts" }, rows.map(({ id, at, kind, level, fields }) =>
    h("li", { class: level, "data-key": id },
      h("time", {}, clock(at)), h("span", { class: "sign", role: "img", "aria-label": level }, SIGN[level] ?? "·"), h("b", {}, kind),
      h("span", {}, Object.entries(fields).map(([name, value]) => [h("i", {}, `${name}=`), name === "session" ? h("a", { href: `#/sessions/${value}` }, String(value)) : shown(value), " "])))));
}

const shown = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));

export default { path: "facts", key: "f", title: "Facts", open };
