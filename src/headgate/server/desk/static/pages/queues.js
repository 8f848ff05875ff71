// Services with their sweeps and their drift, and one queue by its name.

import { get } from "../api.js";
import { ago, bytes, clock, count, exact, lasted, rate, since } from "../numbers.js";
import { openQueues } from "../open_queues.js";
import { bar, called, card, empty, head, numbers, pill, sessionLink, table, trouble, unmeasured } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const KNOWN = 8; // queues that are suggested

function open(main, { of }) {
  const body = h("div", { class: "stack" });
  const answer = h("div", { "aria-live": "polite" });
  const known = h("p", { class: "chips" });
  const name = h("input", { type: "search", class: "name", value: of, "data-search": true, "aria-label": "Name of a queue", placeholder: "DOMAIN/QUEUE, or the id of an exclusive queue", spellcheck: "false" });
  main.append(head("Queues & services", { command: "headgate service ls", json: "/api/v1/services" }), body,
    h("section", { class: "card stack" }, h("h2", {}, "Look up a queue"),
      h("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); look(); } }, name, h("button", { class: "primary" }, "Look")), known, answer));
  get("domains").then((domains) => openQueues(domains, KNOWN)).then((paths) => morph(known, paths.length ? h("span", { class: "quiet" }, "Open now: ") : null,
    paths.map((path) => h("button", { type: "button", onclick: () => { name.value = path; look(); } }, path)))).catch(() => {});
  const refresh = new Refresh(async () => {
    const found = await get("services");
    return () => morph(body, services(found));
  }, (error) => morph(body, trouble(error)));

  async function look() {
    const wanted = name.value.trim();
    if (!wanted) return;
    history.replaceState(null, "", `#/queues/${encodeURIComponent(wanted)}`);
    try {
      morph(answer, one(await get(`queues/${encodeURIComponent(wanted)}`)));
    } catch (error) {
      morph(answer, error.status === 404 ? empty(h("b", {}, `There is no such queue: ${error.message}.`), error.hint ? ` ${error.hint[0].toUpperCase()}${error.hint.slice(1)}.` : null) : trouble(error));
    }
  }
  if (of) look();
  return { leave: () => refresh.stop() };
}

function services({ rows, total, queues_in_memory: inMemory, notices_waiting: notices }) {
  return [
    h("section", { class: "card", "aria-label": "In all", "data-key": "all" }, numbers(
      ["services subscribed", count(total)], ["exclusive queues in memory", exact(inMemory)], ["notices waiting", count(notices)])),
    card("Services", table([
      { name: "service", cell: (row) => h("code", {}, row.service) },
      { name: "role", cell: (row) => (row.role ? pill(row.role) : unmeasured("It was first seen before this router started")) },
      { name: "session", cell: (row) => sessionLink({ session: row.session }) },
      { name: "queues here", number: true, cell: (row) => exact(row.queues_counted) },
      { name: "queues said", number: true, cell: (row) => (row.queues_said === null ? unmeasured("It did not say") : exact(row.queues_said)) },
      { name: "drift", cell: (row) => (row.drift && row.drift !== "none" ? pill(row.drift, "warning") : h("span", { class: "quiet" }, "none")) },
      { name: "sweep", class: "meter", cell: sweep },
      { name: "oldest message", number: true, cell: (row) => (row.oldest ? lasted(since(row.oldest)) : "–") },
    ], rows, "No service is subscribed. A service owns many queues and subscribes to all of them at once; SimpleX clients have them since protocol 19.",
    { key: (row) => `${row.service} ${row.role}` })),
  ];
}

function sweep(row) {
  if (!row.sweep_started) return unmeasured("It did not subscribe as a whole");
  if (row.sweep_ended) return `done ${clock(row.sweep_ended)}, ${lasted(row.sweep_ended - row.sweep_started)}`;
  const took = Math.max(since(row.sweep_started), 0.001);
  return [bar(row.swept, row.sweep_total), ` ${exact(row.swept)} of ${exact(row.sweep_total)}, ${rate(row.swept / took)}/s`];
}

const CLOSED = "Nobody has opened it since the router started";

function one(queue) {
  const oldest = ["oldest", queue.oldest_at ? ago(queue.oldest_at) : unmeasured(queue.backlog_messages ? CLOSED : "It is empty")];
  const path = queue.queue.replace("bmq://", "");
  return h("div", { class: "stack" },
    h("h3", {}, h("code", {}, queue.queue), " ", pill(queue.kind), " ", queue.in_memory ? pill("in memory") : h("span", { class: "quiet" }, queue.kind === "shared" ? "nobody has opened it since the router started" : "read from the store")),
    queue.kind === "shared" ? numbers(
      ["domain", h("a", { href: `#/domains/${queue.domain}` }, queue.domain)], ["messages", count(queue.backlog_messages)], ["size", bytes(queue.backlog_bytes)], oldest,
      ...["undelivered", "unconfirmed", "consumers", "producers"].map((name) => [name, queue[name] === null ? unmeasured(CLOSED) : count(queue[name])]),
      queue.apps.length ? ["apps", queue.apps.join(", ")] : null)
      : numbers(
        ["domain", queue.domain], queue.service ? ["service", queue.service] : null,
        ["subscriber", queue.subscriber ? h("a", { href: `#/sessions/${queue.subscriber.session}` }, called(queue.subscriber)) : "nobody"],
        ["messages", count(queue.backlog_messages)], oldest, ["unconfirmed", count(queue.unconfirmed)], ["notifier", queue.notifier ? "yes" : "no"]),
    queue.kind === "shared" ? h("p", {}, h("a", { href: `#/domains/${path}` }, "its apps and expressions")) : null);
}

export default { path: "queues", key: "q", title: "Queues & services", open };
