// What happened, newest first.

import { get } from "../api.js";
import { bytes, clock, count, some } from "../numbers.js";
import { commandLine, empty, head, pick, search, SIGN, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const LEVELS = { "": "every level", warning: "warnings and errors", error: "errors" };
const LIMIT = 100;

function open(main, { query }) {
  const wanted = { level: query.get("level") in LEVELS ? query.get("level") : "", kind: query.get("kind") ?? "" };
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
    h("p", { class: "quiet" }, "What happened, newest first: the last thousand that are worth a line."),
    h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search("kind, like SessionSlowed", wanted.kind, (kind) => set({ kind })), pick("Level", LEVELS, wanted.level, (level) => set({ level })), pause),
    body);
  const refresh = new Refresh(async () => {
    if (isPaused) return null;
    const found = await get("facts", { level: wanted.level, limit: LIMIT });
    const rows = found.rows.filter(({ kind }) => kind.toLowerCase().includes(wanted.kind.toLowerCase()));
    return () => morph(body,
      leftOut(found, wanted.kind),
      h("section", { class: "card", "aria-label": "Facts, newest first" }, rows.length ? factLines(rows)
        : empty(wanted.level || wanted.kind ? "Nothing of that kind has happened." : "Nothing has happened yet. Connect a client, and it is told here.")));
  }, (error) => morph(body, trouble(error)), 1.5);
  return { leave: () => refresh.stop() };
}

/** Which facts are not here, and where they are. */
function leftOut({ left_out: kinds, skipped, skipped_kinds: counts }, wanted) {
  const asked = wanted && kinds.find((kind) => kind.toLowerCase() === wanted.toLowerCase());
  const fast = Object.entries(counts).toSorted(([, a], [, b]) => b - a).map(([kind, n]) => `${count(n)} ${kind}`).join(", ");
  return [
    asked ? h("p", { class: "notice", "data-key": "asked" }, `▲ ${asked} is not kept here. The journal has it: `, commandLine("headgate journal tail --follow")) : null,
    skipped ? h("p", { class: "quiet", "data-key": "skipped" }, `${some(skipped, "fact")} came too fast, and ${skipped === 1 ? "was" : "were"} not kept here (a hundred a second are): ${fast}.`) : null,
    h("details", { class: "quiet", "data-key": "left-out", "data-keep": "left-out" }, h("summary", {}, `${some(kinds.length, "kind")} are left out here, as they come with every message or are only counted`),
      h("p", {}, kinds.join(", "), ". The journal has them all: ", commandLine("headgate journal tail --follow"))),
  ];
}

export function factLines(rows) {
  return h("ol", { class: "facts" }, rows.map(({ id, at, kind, level, fields }) =>
    h("li", { class: level, "data-key": id },
      h("time", {}, clock(at)), h("span", { class: "sign", role: "img", "aria-label": level }, SIGN[level] ?? "·"), h("b", {}, kind),
      h("span", {}, Object.entries(told(fields)).map(([name, value]) => [h("i", {}, `${name}=`), name === "session" ? h("a", { href: `#/sessions/${value}` }, String(value)) : shown(value), " "])))));
}

/** The fields as they are shown: sizes for people, nothing that is empty, and a name not once more in one piece where
 * its parts are there. */
function told({ name, ...fields }) {
  if (typeof fields.size === "number") fields.size = bytes(fields.size);
  const all = !name || fields.called || fields.peer ? fields : { ...fields, name };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}

const shown = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));

export default { path: "facts", key: "f", title: "Facts", open };
