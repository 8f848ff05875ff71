// Domains with their quotas, the apps of shared queues, and one queue with whom its messages go to.

import { act, isOperator } from "../actions.js";
import { get } from "../api.js";
import { bytes, clock, count, lasted, percent, since, some, trend, verb } from "../numbers.js";
import { openQueues, queuePath } from "../open_queues.js";
import { bar, card, commandLine, empty, head, numbers, pager, pill, table, trouble, unmeasured } from "../parts.js";
import { written } from "../properties.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const CAPACITY = { normal: "", high: "warning", full: "error" };
const OPEN = 2; // queues whose apps are shown at once
const LIMIT = 25; // queues of a domain on a page
const COUNTS = { auto_confirmed: "auto-confirmed", put_aside: "put aside" };
const KINDS = ["name", "type", "arithmetic"];

function open(main, { of, query }) {
  const path = (of || query.get("queue") || query.get("domain") || "").replace("bmq://", "");
  return path.includes("/") ? openQueue(main, path) : openList(main, path);
}

function openList(main, domain) {
  const body = h("div", { class: "stack" });
  main.append(head(domain || "Domains & apps", { command: domain ? `headgate domain show ${domain}` : "headgate domain ls", json: `/api/v1/domains${domain ? `/${domain}` : ""}` }),
    domain ? h("p", {}, h("a", { href: "#/domains" }, "‹ all domains")) : "", body);
  const aside = new Aside(() => refresh.now());
  let offset = 0;
  const go = (to) => { offset = to; refresh.now(); };
  const refresh = new Refresh(async () => {
    const found = await get(domain ? `domains/${encodeURIComponent(domain)}` : "domains", domain ? { limit: LIMIT, offset } : {});
    if (domain) return () => morph(body, domains([found.row]), channels(found.row), found.row.mode === "exclusive" ? lookUp() : queues(found, offset, go));
    const first = await Promise.all((await openQueues(found, OPEN)).map((path) => get(queuePath(path))));
    return () => morph(body, apps(found.apps), first.map((queue) => queue.apps.map((app) => appCard(queue, app, aside))), domains(found.rows));
  }, (error) => morph(body, trouble(error)));
  return { leave: () => refresh.stop() };
}

/** What the consumers of an expression hold; named ones have no window. */
const inFlight = ({ in_flight, window }) => (window === null ? count(in_flight)
  : [bar(in_flight, window, window && in_flight >= window ? "bad" : ""), ` ${count(in_flight)} of ${count(window)}`]);

/** Why messages match nobody, for apps of which somebody asked it. */
class Aside {
  constructor(changed) {
    this.changed = changed;
    this.found = new Map();
  }

  of(queue, app) { return this.found.get(`${queue.queue} ${app.app}`); }

  async look(queue, app) {
    const answer = await get(`${queuePath(`${queue.domain}/${queue.name}`)}/aside`, { app: app.app, limit: 20 }).catch((error) => error);
    this.found.set(`${queue.queue} ${app.app}`, answer);
    this.changed();
  }
}

const queueLink = (row) => h("a", { href: `#/domains/${row.domain}/${row.name}` }, `${row.domain}/${row.name}${row.app ? ` · ${row.app}` : ""}`);

function apps(rows) {
  return card("Apps with most that is undelivered", table([
    { name: "queue · app", cell: (row) => [h("b", {}, queueLink(row)), row.stuck ? [" ", pill("stuck", "error")] : null] },
    { name: "in line", number: true, cell: (row) => count(row.in_line) },
    { name: "wait for room", number: true, cell: (row) => marked(row.waiting) },
    { name: "match nobody", number: true, cell: (row) => marked(row.aside) },
    { name: "unconfirmed", number: true, cell: (row) => count(row.unconfirmed) },
    { name: "consumers", number: true, cell: (row) => (row.consumers || !undelivered(row) ? count(row.consumers) : h("b", { class: "warn" }, "0")) },
    { name: "full windows", number: true, cell: (row) => `${count(row.full)} of ${count(row.subscriptions)}` },
    { name: "oldest", number: true, cell: (row) => (row.oldest_at ? lasted(since(row.oldest_at)) : unmeasured("Nothing is undelivered")) },
    { name: "trend", number: true, cell: (row) => trend(row.growth_per_s) },
  ], rows, "Every shared queue has delivered what came. A queue is opened by its first client: headgate sub bmq://DOMAIN/QUEUE",
  { key: (row) => `${row.queue} ${row.app}` }));
}

const undelivered = (row) => row.in_line + row.waiting + row.aside;
const marked = (n) => (n ? h("b", { class: "warn" }, count(n)) : "0");

function domains(rows) {
  return card("Domains", table([
    { name: "domain", cell: (row) => h("b", {}, h("a", { href: `#/domains/${row.domain}` }, row.domain)) },
    { name: "mode", cell: (row) => pill(row.mode) },
    { name: "apps", cell: (row) => row.apps.join(", ") || unmeasured("Only a fanout domain has apps") },
    { name: "queues", number: true, cell: (row) => counted(row, () => `${count(row.opened)} open of ${count(row.queues)}`) },
    { name: "messages", number: true, class: "whole", cell: (row) => counted(row, () => quota(row.messages, row.domain_max_messages, count)) },
    { name: "size", number: true, class: "whole", cell: (row) => counted(row, () => quota(row.bytes, row.domain_max_bytes, bytes)) },
    { name: "capacity", cell: (row) => counted(row, () => pill(row.capacity, CAPACITY[row.capacity])) },
  ], rows, "There is no domain. Write one into the configuration: [domains.orders] mode = \"fanout\"", { key: (row) => row.domain }));
}

/** What Redis clients have of a domain: keys that are its queues, and channels. */
function channels(row) {
  const names = (texts) => texts.map((text, i) => [i ? ", " : "", h("code", {}, text)]);
  const known = [
    ["streams", row.streams], ["fed by the channels", row.feeds], ["speaks on", row.speaks ? [row.speaks] : []],
  ].filter(([, texts]) => texts.length);
  return known.length ? h("p", { class: "quiet", "data-key": "channels" }, "Redis clients: ",
    known.map(([what, texts], i) => [i ? "; " : "", `${what} `, names(texts)]), row.groups === "open" ? "; they make groups" : "") : null;
}

/** What is known of a domain of shared queues; exclusive ones are looked up one by one. */
const counted = (row, cell) => (row.mode === "exclusive" ? unmeasured("Exclusive queues may be millions, and are not counted by domain") : cell());

const quota = (n, most, format) => (most ? [bar(n, most, n > most * 0.8 ? "bad" : ""), ` ${format(n)} of ${format(most)}`] : format(n));

const lookUp = () => h("p", { class: "quiet", "data-key": "look-up" }, "Its queues are not listed: there may be millions, and their names are secrets. ",
  h("a", { href: "#/queues" }, "Look one up"));

function queues({ rows, total }, offset, go) {
  return card("Queues in memory", [table([
    { name: "queue", cell: (row) => h("b", {}, queueLink(row)) },
    { name: "messages", number: true, cell: (row) => count(row.messages) },
    { name: "size", number: true, cell: (row) => bytes(row.bytes) },
    { name: "undelivered", number: true, cell: (row) => marked(row.undelivered) },
    { name: "consumers", number: true, cell: (row) => count(row.consumers) },
    { name: "producers", number: true, cell: (row) => count(row.producers) },
    { name: "capacity", cell: (row) => pill(row.capacity, CAPACITY[row.capacity]) },
  ], rows, "Nobody has opened a queue of this domain since the router started.", { key: (row) => row.queue }), pager(offset, rows.length, LIMIT, total, go)],
  { beside: total ? h("span", { class: "quiet" }, count(total)) : null });
}

const UNOPENED = "nobody has opened it since the router started";

function openQueue(main, path) {
  const [domain, ...rest] = path.split("/");
  const name = rest.join("/");
  const body = h("div", { class: "stack" });
  main.append(
    head(path, { command: `headgate queue show bmq://${path}`, json: `/api/v1/domains/${domain}/queues/${name}` }),
    h("p", {}, h("a", { href: "#/domains" }, "‹ all domains")), body);
  const aside = new Aside(() => refresh.now());
  const refresh = new Refresh(async () => {
    const found = await get(queuePath(path));
    return () => morph(body, whole(found, () => refresh.now()), found.apps.map((app) => appCard(found, app, aside)));
  }, (error) => morph(body, trouble(error)));
  return { leave: () => refresh.stop() };
}

function whole(found, again) {
  const counted = found.counts ?? {};
  return h("section", { class: "card", "data-key": "whole" },
    h("h2", {}, "The queue", pill(found.mode), pill(found.capacity, CAPACITY[found.capacity]),
      found.opened ? null : h("span", { class: "quiet" }, UNOPENED)),
    numbers(
      ["messages", found.opened ? quota(found.messages, found.max_messages, count) : unmeasured(UNOPENED)], ["size", found.opened ? quota(found.bytes, found.max_bytes, bytes) : unmeasured(UNOPENED)],
      ["producers", count(found.producers)], ...Object.entries(counted).map(([kind, n]) => [COUNTS[kind] ?? kind, count(n)])),
    isOperator() ? h("p", { class: "filters" },
      h("button", { type: "button", onclick: () => act("queues/purge", { title: `Empty ${found.queue}?`, confirm: found.queue, fields: { queue: found.queue, count: found.messages }, text: `Its ${some(found.messages, "message")} ${verb(found.messages, "is", "are")} gone for all apps, for ever.`, verb: "Empty it", level: "danger", then: again }) }, "Purge…"),
      h("button", { type: "button", onclick: () => act("queues/delete", { title: `Delete ${found.queue}?`, confirm: found.queue, fields: { queue: found.queue }, text: "It is gone for ever, with its messages. While somebody has it open it stays.", verb: "Delete it", level: "danger", then: again }) }, "Delete…")) : null);
}

function appCard(queue, app, aside) {
  const counted = app.counts ?? {};
  const growing = app.growth_per_s > 0.5;
  return h("section", { class: "card stack", "data-key": `${queue.queue} ${app.app}` },
    h("h2", {}, `${queue.domain}/${queue.name}${app.app ? ` · ${app.app}` : ""}`, app.stuck ? pill("stuck", "error") : null,
      !app.consumers && undelivered(app) ? pill("nobody reads it", "warning") : null,
      app.is_known ? null : pill("unknown app", "error"),
      h("a", { class: "more", href: `#/playground?${new URLSearchParams({ queue: queue.queue, app: app.app })}` }, "explain")),
    app.is_known ? null : h("p", { class: "notice error" }, `✕ ${app.reason}. Correct the id that its ${verb(app.consumers, "consumer gives", "consumers give")}, or add ${app.app} to domains.${queue.domain}.apps and reload.`),
    app.filters.length ? h("p", { class: "quiet" }, "only if ", app.filters.map((text, i) => [i ? " or " : "", h("code", {}, text)])) : null,
    numbers(
      ["in line", count(app.in_line)], ["wait for room", count(app.waiting), app.waiting ? "warn" : ""],
      ["match nobody", count(app.aside), app.aside ? "warn" : ""], ["unconfirmed", count(app.unconfirmed)],
      ["trend", trend(app.growth_per_s), growing ? "warn" : ""],
      app.oldest_at ? ["oldest", lasted(since(app.oldest_at))] : null,
      app.to_redeliver ? ["to give again", count(app.to_redeliver), "warn"] : null,
      app.held_until ? ["held until", clock(app.held_until), "warn"] : null,
      ["delivered", count(counted.delivered ?? 0)], ["confirmed", count(counted.confirmed ?? 0)],
      ["auto-confirmed", count(counted.auto_confirmed ?? 0)], ["returned", count(counted.returned ?? 0)],
      ["poisoned", count(counted.poisoned ?? 0), counted.poisoned ? "bad" : ""]),
    table([
      { name: "priority, expression", cell: (group) => [h("span", { class: "priority", title: "priority" }, String(group.priority)), h("code", {}, group.expression ?? "(every message)")] },
      { name: "consumers", number: true, cell: (group) => count(group.consumers) },
      { name: "matched", class: "meter", cell: (group) => [bar(group.matched, app.looked_at), ` ${count(group.matched)}`] },
      { name: "undecided", class: "whole", cell: undecided },
      { name: "in flight", class: "meter", cell: inFlight },
      { name: "waiting", number: true, cell: (group) => marked(group.waiting) },
    ], app.groups, h("p", { class: "empty" }, "Nobody reads this app. ", commandLine(`headgate sub '${queue.queue}${app.app ? `?id=${app.app}` : ""}'`)), { key: (group) => `${group.priority} ${group.expression}` }),
    app.expressions > app.groups.length ? h("p", { class: "quiet" }, `and ${some(app.expressions - app.groups.length, "more expression")}`) : null,
    app.aside ? asideOf(queue, app, aside) : null);
}

/** How often an expression has no value, and why, as `headgate explain` says it. */
function undecided({ expression, undecided: { sampled, ...kinds }, reason, advice }) {
  const found = KINDS.filter((kind) => kinds[kind]);
  if (expression === null) return h("span", { class: "quiet" }, "never");
  if (!sampled) return unmeasured("It was not sampled yet");
  if (!found.length) return h("span", { class: "quiet", title: `${some(sampled, "message")} sampled` }, "never");
  return [pill(found.map((kind) => `${kind.toUpperCase()} in ${percent(kinds[kind] / sampled)}`).join(", "), "warning"), because(reason, advice)];
}

const because = (reason, advice) => (reason ? h("small", { class: "because" }, reason, advice ? `; ${advice}` : null) : null);

function asideOf(queue, app, aside) {
  const found = aside.of(queue, app);
  const look = () => aside.look(queue, app);
  if (!found) return h("p", {}, h("button", { type: "button", onclick: look }, app.aside === 1 ? "Why does 1 match nobody?" : `Why do ${count(app.aside)} match nobody?`));
  if (found instanceof Error) return trouble(found);
  const explain = (row) => `#/playground?${new URLSearchParams({ queue: queue.queue, app: app.app, properties: written(row.properties) })}`;
  return h("div", { class: "stack" },
    h("h3", {}, found.total === 1 ? "Of the one that matches nobody" : `Of the oldest ${count(found.rows.length)} of ${count(found.total)} that match nobody`),
    table([
      { name: "priority, expression", cell: (why) => [h("span", { class: "priority" }, String(why.priority)), h("code", {}, why.expression ?? "(every message)")] },
      { name: "false", number: true, cell: (why) => count(why.false) },
      ...KINDS.map((kind) => ({ name: kind.toUpperCase(), number: true, cell: (why) => marked(why[kind]) })),
      { name: "because", class: "whole", cell: (why) => because(why.reason, why.advice) ?? h("small", { class: "quiet" }, why.expression === null ? "it matches every message" : "it is false") },
    ], found.why, "Nobody reads this app, so there is nothing that could match.", { key: (why) => `${why.priority} ${why.expression}` }),
    table([
      { name: "came", class: "still", cell: (row) => clock(row.at) },
      { name: "properties", class: "whole", cell: (row) => h("code", {}, Object.entries(row.properties).map(([k, v]) => `${k}=${JSON.stringify(v)}`).join("  ")) },
      { name: "size", number: true, cell: (row) => bytes(row.size) },
      { name: "", cell: (row) => h("a", { href: explain(row) }, "explain") },
    ], found.rows.slice(0, 8), "They are gone by now.", { key: (row) => row.message }),
    h("p", { class: "filters" }, h("button", { type: "button", onclick: look }, "Show it anew"),
      isOperator() ? h("button", { type: "button", onclick: () => act("apps/look-again", { title: `Offer them again?`, confirm: queue.queue, fields: { queue: queue.queue, app: app.app }, text: "Everything that was put aside is looked at again, as if a subscription had changed.", verb: "Look again", then: look }) }, "Look at them again…") : null));
}

export default { path: "domains", key: "d", title: "Domains & apps", open };
