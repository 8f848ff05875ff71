// What pages are made of: heads, cards, tables, bars, marks, and commands to copy.

import { Away } from "./api.js";
import { placed } from "./commands.js";
import { count } from "./numbers.js";
import { h } from "./ui.js";

export const SIGN = { error: "✕", warning: "▲", info: "●", good: "✓" };

export const pill = (text, level = "") => h("span", { class: `pill ${level}`.trim() }, SIGN[level] && `${SIGN[level]} `, text);

/** The head of a page: its title, and the same in a terminal and as JSON. */
export function head(title, { command, json, text } = {}) {
  return h("div", { class: "head" },
    h("h1", {}, title),
    text ? h("p", { class: "quiet" }, text) : null,
    h("span", { class: "gap" }),
    command ? commandLine(command) : null,
    json ? h("a", { class: "json wide", href: json, target: "_blank", rel: "noopener" }, "JSON") : null);
}

/** A command that can be copied with a click, with what it needs to reach this router; `whole` shows that too. */
export function commandLine(command, { text, classes = "", whole = false } = {}) {
  const line = placed(command);
  const copy = async ({ currentTarget }) => {
    await navigator.clipboard.writeText(line).then(
      () => currentTarget.setAttribute("data-told", "copied"),
      () => currentTarget.setAttribute("data-told", "select it and copy"));
    setTimeout(() => currentTarget.removeAttribute("data-told"), 1200);
  };
  return h("button", { type: "button", class: `command ${classes}`.trim(), title: `Copy: ${line}`, "aria-label": `Copy: ${command}`, onclick: copy },
    h("code", {}, text ?? (whole ? line : command)));
}

export function card(title, content, { more, key, beside } = {}) {
  return h("section", { class: "card", "data-key": key ?? title },
    h("h2", {}, title, beside, more ? h("a", { href: more, class: "more", "aria-label": `${title}: all` }, "all") : null), content);
}

/** In place of a number that nobody measured, and why. */
export const unmeasured = (why) => h("span", { class: "quiet", role: "img", title: why, "aria-label": why }, "–");

export const empty = (...text) => h("p", { class: "empty" }, ...text);

/** What went wrong with a question, and what to do. */
export function trouble(error) {
  const hint = error instanceof Away ? "The page asks again by itself; in a terminal: headgate check" : error.hint;
  return h("p", { class: "notice error", role: "alert", "data-key": "trouble" }, h("b", {}, `${SIGN.error} ${error.message}`), hint ? ` ${hint}` : null);
}

/** Rows under columns; on a phone each row is a small card. A column has `name`, `cell(row)`, and
 * perhaps `number`, `class`. */
export function table(columns, rows, nothing, { key, mark, label } = {}) {
  if (!rows.length) return nothing instanceof Node ? nothing : empty(nothing);
  return h("div", { class: "scroll" }, h("table", { "aria-label": label },
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : null }, column.name)))),
    h("tbody", {}, rows.map((row) => h("tr", { "data-key": key?.(row), class: mark?.(row) },
      columns.map((column) => h("td", { class: classes(column), "data-label": column.name }, column.cell(row))))))));
}

const classes = (column) => [column.number ? "number" : "", column.class ?? ""].join(" ").trim() || null;

export function bar(part, whole, level = "") {
  const width = whole ? Math.min(100, Math.max(part ? 2 : 0, Math.round((part / whole) * 100))) : 0;
  return h("svg", { class: `bar ${level}`.trim(), viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": `${width} %` },
    h("rect", { width: 100, height: 8, class: "whole" }), h("rect", { width, height: 8, class: "part" }));
}

/** Names and numbers in a row: `[name, value, level]`. */
export function numbers(...pairs) {
  return h("dl", { class: "numbers" }, pairs.filter(Boolean).map(([name, value, level]) =>
    h("div", { "data-key": name }, h("dt", {}, name), h("dd", { class: level }, value))));
}

export function pick(label, choices, chosen, then) {
  return h("select", { "aria-label": label, "data-keep": label, onchange: ({ target }) => then(target.value) },
    Object.entries(choices).map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

export function search(label, value, then) {
  let timer;
  return h("input", {
    type: "search", "aria-label": label, placeholder: label, value, "data-keep": label, "data-search": true, autocomplete: "off", spellcheck: "false",
    oninput: ({ target }) => { clearTimeout(timer); timer = setTimeout(() => then(target.value), 200); },
  });
}

/** Before and next, for a list of which only a part is shown. `most` is how far the router goes. */
export function pager(offset, size, limit, total, go, most = 10_000) {
  if (total <= limit && !offset) return null;
  const isLast = offset + size >= total || offset + limit > most;
  return h("p", { class: "pager" },
    h("button", { type: "button", disabled: !offset, onclick: () => go(Math.max(0, offset - limit)) }, "‹ before"),
    ` ${count(offset + (size ? 1 : 0))}–${count(offset + size)} of ${count(total)} `,
    h("button", { type: "button", disabled: isLast, onclick: () => go(offset + limit) }, "next ›"),
    isLast && offset + size < total ? " search to see others" : null);
}

/** What people call a session: the name that it gave itself, without its address and its process. */
export function called(row) {
  const name = (row?.name ?? "").replace(/^(\[[0-9a-f:]+\]|[\w.-]+):\d+ /i, "").replace(/@\S+ pid \d+$/, "");
  return name || row?.peer || `session ${row?.session}`;
}

/** Whether it is called anything but its number. */
export const hasName = (row) => called(row) !== `session ${row.session}`;

export const sessionLink = (row) => h("a", { href: `#/sessions/${row.session}` }, called(row));

export function mailbox(row) {
  return [bar(row.mailbox_bytes, row.mailbox_hard, row.pressure === "easy" ? "" : "bad"), " "];
}
