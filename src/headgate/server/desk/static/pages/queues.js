// Services with their sweeps and their drift, and one queue by its name.

import { get } from "../api.js";
import { bytes, clock, count, lasted, rate, since } from "../numbers.js";
import { bar, called, card, empty, head, numbers, pill, sessionLink, table, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

function open(main, { of }) {
  const body = h("div", { class: "stack" });
  const answer = h("div", { "aria-live": "polite" });
  const name = h("input", { type: "search", class: "name", value: of, "data-search": true, "aria-label": "Name of a queue", placeholder: "bmq://DOMAIN/QUEUE, or the id or digest of an exclusive queue", spellcheck: "false" });
  main.append(head("Queues & services", { command: "headgate service ls", json: "/api/v1/services" }), body,
    h("section", { class: "card stack" }, h("h2", {}, "Look up a queue"),
      h("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); look(); } }, name, h("button", { class: "primary" }, "Look")), answer));
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
      morph(answer, error.status === 404 ? empty("There is no such queue. Names of exclusive queues are digests, as in the journal.") : trouble(error));
    }
  }
  if (of) look();
  return { leave: () => refresh.stop() };
}

function services({ rows, total, queues_in_memory: inMemory, notices_waiting: notices }) {
  return [
    h("section", { class: "card", "aria-label": "In all", "data-key": "all" }, numbers(
      ["services subscribed", count(total)], ["queues in memory", count(inMemory)], ["notices waiting", count(notices)])),
    card("Services", table([
      { name: "service", cell: (row) => h("code", {}, row.service) },
      { name: "role", cell: (row) => pill(row.role) },
      { name: "session", cell: (row) => sessionLink({ session: row.session }) },
      { name: "queues here", number: true, cell: (row) => count(row.queues_counted) },
      { name: "queues said", number: true, cell: (row) => (row.queues_said === null ? "–" : count(row.queues_said)) },
      { name: "drift", cell: (row) => (row.drift && row.drift !== "none" ? pill(row.drift, "warning") : h("span", { class: "quiet" }, "none")) },
      { name: "sweep", class: "meter", cell: sweep },
      { name: "oldest message", number: true, cell: (row) => (row.oldest ? lasted(since(row.oldest)) : "–") },
    ], rows, "No service is subscribed. A service owns many queues and subscribes to all of them at once; SimpleX clients have them since protocol 19.",
    { key: (row) => `${row.service} ${row.role}` })),
  ];
}

function sweep(row) {
  if (!row.sweep_started) return h("span", { class: "quiet" }, "–");
  if (row.sweep_ended) return `done ${clock(row.sweep_ended)}, ${lasted(row.sweep_ended - row.sweep_started)}`;
  const took = Math.max(since(row.sweep_started), 0.001);
  return [bar(row.swept, row.sweep_total), ` ${count(row.swept)} of ${count(row.sweep_total)}, ${rate(row.swept / took)}/s`];
}

function one(queue) {
  return h("div", { class: "stack" },
    h("h3", {}, h("code", {}, queue.queue), " ", pill(queue.kind), " ", queue.in_memory ? pill("in memory") : null),
    numbers(
      ["domain", queue.domain], queue.service ? ["service", queue.service] : null,
      ["subscriber", queue.subscriber ? h("a", { href: `#/sessions/${queue.subscriber.session}` }, called(queue.subscriber)) : "nobody"],
      ["messages", count(queue.backlog_messages)], queue.backlog_bytes === null ? null : ["bytes", bytes(queue.backlog_bytes)],
      ["oldest", queue.oldest_at ? `${lasted(since(queue.oldest_at))} ago` : "–"], ["unconfirmed", count(queue.unconfirmed)],
      ["notifier", queue.notifier ? "yes" : "no"], queue.created ? ["made", clock(queue.created)] : null),
    queue.kind === "shared" ? h("p", {}, h("a", { href: `#/domains/${queue.queue.replace("bmq://", "")}` }, "its apps")) : null);
}

export default { path: "queues", key: "q", title: "Queues & services", open };
