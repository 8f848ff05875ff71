// Who is connected, trouble first; and one of them, with who waits for whom.

import { get } from "../api.js";
import { act, isOperator } from "../actions.js";
import { ago, bytes, clock, count, lasted, since, some } from "../numbers.js";
import { bar, called, card, commandLine, empty, hasName, head, mailbox, numbers, pager, pick, pill, search, sessionLink, table, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";
import { factLines } from "./facts.js";

const LIMIT = 20;
const SORTS = { trouble: "trouble first", mailbox: "fullest mailbox", subscriptions: "most subscriptions", newest: "newest first", oldest: "oldest first" };

function open(main, { of, query }) {
  const session = of || query.get("id");
  return session ? openOne(main, session) : openList(main);
}

function openList(main) {
  const wanted = { sort: "trouble", wire: "", q: "", offset: 0 };
  const body = h("div", { class: "stack" });
  const wires = pick("Wire", { "": "every wire" }, "", (wire) => set({ wire }));
  const set = (changes) => { Object.assign(wanted, { offset: 0 }, changes); refresh.now(); };
  main.append(
    head("Sessions", { command: "headgate session ls", json: "/api/v1/sessions" }),
    h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search("name or address", "", (q) => set({ q })),
      wires,
      pick("Order", SORTS, "trouble", (sort) => set({ sort }))),
    body);
  const refresh = new Refresh(async () => {
    const found = await get("sessions", { ...wanted, limit: LIMIT });
    return () => { offer(wires, Object.keys(found.wires)); morph(body, list(found, wanted, set)); };
  }, (error) => morph(body, trouble(error)));
  return { leave: () => refresh.stop() };
}

/** More to choose from: wires that have come to have sessions. */
function offer(wires, names) {
  const known = new Set(Array.from(wires.options, (each) => each.value));
  wires.append(...names.filter((name) => !known.has(name)).sort().map((name) => h("option", { value: name }, name)));
}

function list({ rows, total, wires, closed }, { q, wire, offset }, set) {
  const kinds = Object.entries(wires).filter(([, n]) => n).map(([name, n]) => `${count(n)} ${name}`).join(", ");
  const nothing = q || wire ? empty("No session fits. Look for a part of a name, or of an address like 127.0.0.1.")
    : empty("Nobody is connected. Try ", commandLine("headgate sub news"), " in a terminal.");
  return [
    h("p", { class: "quiet" }, q || wire ? `${some(total, "session")} of ${kinds || "none"}` : `${some(total, "session")}${kinds ? `: ${kinds}` : ""}`),
    h("section", { class: "card", "aria-label": "Sessions" }, table([
      { name: "session", cell: (row) => [h("b", {}, sessionLink(row)), h("small", {}, ` ${[hasName(row) && row.session, row.peer !== called(row) && row.peer].filter(Boolean).join(" · ")}`)] },
      { name: "wire", cell: (row) => pill(row.wire) },
      { name: "mailbox", class: "meter", cell: (row) => [mailbox(row), bytes(row.mailbox_bytes)] },
      { name: "state", class: "whole", cell: stateOf },
      { name: "subscriptions", number: true, cell: (row) => count(row.subscriptions + row.queues) },
      { name: "unconfirmed", number: true, cell: (row) => count(row.unconfirmed) },
      { name: "in", number: true, cell: (row) => `${bytes(row.in_per_s)}/s` },
      { name: "out", number: true, cell: (row) => `${bytes(row.out_per_s)}/s` },
      ...(rows.some((row) => row.worker) ? [{ name: "worker", number: true, cell: (row) => row.worker }] : []),
      { name: "open for", number: true, cell: (row) => lasted(since(row.opened)) },
    ], rows, nothing, { key: (row) => row.session }), pager(offset, rows.length, LIMIT, total, (to) => set({ offset: to }))),
    card("Closed lately", table([
      { name: "when", class: "still", cell: (row) => `${clock(row.at)}, ${ago(row.at)}` },
      { name: "session", cell: (row) => [called(row), hasName(row) ? h("small", {}, ` ${row.session}`) : null] },
      { name: "wire", cell: (row) => pill(row.wire) },
      { name: "reason", class: "whole", cell: (row) => row.reason },
    ], closed, "Nobody has left since the router started.", { key: (row) => `${row.session} ${row.at}` })),
  ];
}

function stateOf(row) {
  if (row.waits_for) return pill(`waits for ${called(row.waits_for)}`, "warning");
  if (row.held_up) return pill(`holds up ${row.held_up}`, "error");
  if (row.slow_since) return pill(`slow for ${lasted(since(row.slow_since))}`, "warning");
  return h("span", { class: "quiet" }, "reads");
}

function openOne(main, session) {
  const body = h("div", { class: "stack" });
  main.append(
    head(`Session ${session}`, { command: `headgate session show ${session}`, json: `/api/v1/sessions/${session}` }),
    h("p", {}, h("a", { href: "#/sessions" }, "‹ all sessions")), body);
  const title = main.querySelector("h1");
  const refresh = new Refresh(async () => {
    const found = await get(`sessions/${session}`);
    return () => {
      title.textContent = called(found.row);
      morph(body, one(found, () => refresh.now()));
    };
  }, (error) => morph(body, error.status === 404
    ? empty("This session is not open, any more or yet. Why it ended is under “Closed lately” of all sessions, and in the journal: ",
      h("code", {}, `headgate journal tail | grep '"session": ${session}'`))
    : trouble(error)), 2);
  return { leave: () => refresh.stop() };
}

function one(found, again) {
  const { row } = found;
  return [
    h("section", { class: "card", "data-key": "row" },
      h("h2", {}, h("span", { class: "quiet" }, [`session ${row.session}`, row.peer, row.agent, row.user && `user ${row.user}`].filter(Boolean).join(" · ")),
        pill(row.wire), stateOf(row)),
      numbers(
        ["mailbox", [bar(row.mailbox_bytes, row.mailbox_hard, row.pressure === "easy" ? "" : "bad"), ` ${bytes(row.mailbox_bytes)} of ${bytes(row.mailbox_hard)}`], row.pressure === "hard" ? "bad" : ""],
        ["reads", `${bytes(row.out_per_s)}/s`], ["writes", `${bytes(row.in_per_s)}/s`],
        ["channels", count(found.channels_total)], ["patterns", count(found.patterns_total)], ["queues", count(row.queues)],
        ["unconfirmed", count(row.unconfirmed)],
        row.oldest_unconfirmed ? ["oldest unconfirmed", lasted(since(row.oldest_unconfirmed))] : null,
        row.slow_since ? ["slow since", clock(row.slow_since), "bad"] : null,
        ["open for", lasted(since(row.opened))], ["silent for", lasted(row.idle)]),
      isOperator() ? h("p", { class: "filters" },
        h("button", { type: "button", onclick: () => act(`sessions/${row.session}/close`, { title: `Close ${called(row)}?`, confirm: row.name || String(row.session), text: "Its connection ends. What it has not confirmed goes to others, or waits for it.", verb: "Close it", level: "danger", then: again }) }, "Close…"),
        row.wire === "resp" && row.mailbox_bytes ? h("button", { type: "button", onclick: () => act(`sessions/${row.session}/trim`, { title: `Drop what waits for ${called(row)}?`, confirm: row.name || String(row.session), text: "The oldest messages of channels that wait for it are dropped, down to its soft limit. Those who publish to it go on.", verb: "Drop them", level: "danger", then: again }) }, "Trim…") : null) : null),
    chain(found),
    subscribed(found),
    heard("Channels", found.channels, found.channels_total),
    heard("Patterns", found.patterns, found.patterns_total),
    heard("Queues", found.queues, found.queues_total, queueNamed),
    card("What happened to it", found.facts.length ? factLines(found.facts) : empty("Nothing that is worth a line.")),
  ];
}

/** Who waits for whom, from the left to the right. */
function chain({ row, waited_for_by: waiting }) {
  if (!row.waits_for && !waiting.length) return null;
  const who = (each, text, level = "") => h("a", { class: `who ${level}`.trim(), href: `#/sessions/${each.session}` }, h("b", {}, called(each)), h("small", {}, text));
  const arrow = () => h("span", { class: "arrow" }, "── waits for ─▶");
  const few = waiting.slice(0, 8);
  return card("Who waits for whom", h("div", { class: "chain" },
    few.length ? [h("ul", {}, few.map((each) => h("li", { "data-key": each.session }, who(each, `session ${each.session}, publishes`))),
      waiting.length > few.length ? h("li", {}, `and ${waiting.length - few.length} more`) : null), arrow()] : null,
    h("span", { class: `who here ${row.waits_for ? "" : "error"}`.trim() }, h("b", {}, called(row)),
      h("small", {}, row.waits_for ? `session ${row.session}, publishes` : `mailbox ${bytes(row.mailbox_bytes)} of ${bytes(row.mailbox_hard)} · reads ${bytes(row.out_per_s)}/s`)),
    row.waits_for ? [arrow(), who(row.waits_for, `session ${row.waits_for.session}, does not read`, "error")] : null));
}

function subscribed({ subscriptions }) {
  if (!subscriptions.length) return null;
  return card("Subscriptions by expression", table([
    { name: "queue", cell: (each) => { const path = each.queue.replace("bmq://", ""); return h("a", { href: `#/domains/${path}` }, `${path}${each.app ? ` · ${each.app}` : ""}`); } },
    { name: "priority, expression", class: "whole", cell: (each) => [h("span", { class: "priority" }, String(each.priority)), h("code", {}, each.expression ?? "(every message)")] },
    { name: "window", class: "meter", cell: (each) => [bar(each.unconfirmed, each.window, each.full ? "bad" : ""), ` ${count(each.unconfirmed)} of ${count(each.window)}`] },
  ], subscriptions, "", { key: (each) => `${each.queue} ${each.app} ${each.expression} ${each.priority}` }));
}

const named = (name) => h("code", {}, name);
const queueNamed = (name) => (name.startsWith("bmq://") ? h("a", { href: `#/domains/${name.slice(6)}` }, named(name)) : named(name));

function heard(title, names, total, shown = named) {
  if (!total) return null;
  return card(title, h("ul", { class: "names" }, names.map((name) => h("li", { "data-key": name }, shown(name)))),
    { beside: h("span", { class: "quiet" }, total > names.length ? `the first ${names.length} of ${count(total)}` : count(total)) });
}

export default { path: "sessions", key: "s", title: "Sessions", open };
