// What needs attention now, and why; then the numbers.

import { get } from "../api.js";
import { spark, TimeChart } from "../charts.js";
import { hasChannels } from "../commands.js";
import { ago, bytes, clock, count, lasted, percent, rate, some, trend } from "../numbers.js";
import { bar, called, card, commandLine, mailbox, pill, sessionLink, SIGN, table, unmeasured } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const SPAN = 900; // seconds of the charts
const ROWS = 6;

const TILES = [
  { name: "Published", series: "published", least: 10, value: (p) => [rate(p.published), "/s"], under: (p) => `${rate(p.fanned_out)}/s to subscribers` },
  { name: "Queued", series: "accepted", least: 10, value: (p) => [rate(p.accepted), "/s"], under: (p) => `${rate(p.confirmed)}/s confirmed` },
  { name: "Confirm p99", series: "confirm_p99", least: 0.01, if: "confirmed", none: "nothing confirmed in 15 minutes", value: (p) => lasted(p.confirm_p99).split(" "), under: (p) => `p50 ${lasted(p.confirm_p50)}` },
  { name: "Backlog", series: "backlog_messages", least: 10, value: (p) => [count(p.backlog_messages), ""], under: (p) => `${bytes(p.backlog_bytes)}, ${count(p.deliveries_unconfirmed)} unconfirmed` },
  { name: "Mailboxes", series: "mailbox_bytes", least: 65536, value: (p) => bytes(p.mailbox_bytes).split(" "), under: (p) => `${count(p.sessions_slow)} slow, ${count(p.publishers_waiting)} held up` },
  { name: "Turns", series: "busy", least: 0.05, value: (p) => [String(Math.round(p.busy * 100)), "% busy"], under: (p) => `${p.turns ? `${lasted(p.turn_seconds)} each` : "none in this second"}, late ${lasted(p.loop_lag)}` },
  { name: "Journal lag", series: "journal_lag", least: 100, if: "journal", none: "no journal is kept", value: (p) => some(p.journal_lag, "fact").split(" "), under: (p) => `${bytes(p.outbox_bytes)} not sealed` },
  { name: "Memory", series: "memory", least: 1, if: "memory", none: "the system does not say", value: (p) => bytes(p.memory).split(" "), under: (p) => `CPU ${percent(p.cpu)} of a core` },
];
const FLOW = [
  { name: "fanned_out", label: "to subscribers", hue: "--c1", fill: true },
  { name: "published", label: "published", hue: "--c2" },
  { name: "delivered", label: "delivered from queues", hue: "--c3" },
];
const DELAY = [
  { name: "confirm_p99", label: "confirm p99", hue: "--c4", fill: true },
  { name: "confirm_p50", label: "confirm p50", hue: "--c1" },
  { name: "turn_seconds", label: "turn", hue: "--c3" },
];
const IF = { confirm_p99: "confirmed", confirm_p50: "confirmed", turn_seconds: "turns" }; // measured only in seconds that have some of it
const SERIES = [...new Set([...TILES.map((tile) => tile.series), ...[...FLOW, ...DELAY].map((line) => line.name), ...Object.values(IF)])];

function open(main) {
  const flow = new TimeChart("Messages per second", FLOW, rate, 10);
  const delay = new TimeChart("Time to confirm", DELAY, lasted, 0.001);
  const attention = h("section", { "aria-live": "polite" });
  const tiles = h("section", { class: "tiles", "aria-label": "Numbers" });
  const tables = h("section", { class: "halves", "aria-label": "Lists" });
  const start = h("section", {});
  main.append(
    h("h1", { class: "hidden" }, "Overview"), attention, start, tiles,
    h("div", { class: "halves" }, charted("Messages per second", flow), charted("Time to confirm", delay)), tables);

  const history = new History();
  let latest = null;
  const loading = new Refresh(async () => {
    const past = await get("series", { names: SERIES.join(), span: SPAN });
    return () => { history.begin(past); loading.stop(); if (latest) tick(latest); };
  }, () => {});

  function tick(news) {
    latest = news;
    history.add(news);
    morph(attention, sentences(news.attention));
    morph(start, news.point.sessions ? null : firstSteps());
    morph(tiles, TILES.map((tile) => tileOf(tile, news, history)));
    for (const [chart, lines] of [[flow, FLOW], [delay, DELAY]]) {
      chart.show([history.at, ...lines.map((line) => history.measured(line.name))]);
    }
    morph(tables, pressed(news), backlogs(news), busiest(news), closed(news));
  }

  return { tick, leave: () => { loading.stop(); flow.end(); delay.end(); } };
}

/** What the router remembers of its numbers, and what came since. */
class History {
  constructor() { this.#clear(); }

  #clear() {
    this.at = [];
    this.series = Object.fromEntries(SERIES.map((name) => [name, []]));
  }

  begin(past) {
    const added = this.at.map((at, i) => ({ at, point: Object.fromEntries(SERIES.map((name) => [name, this.series[name][i]])) }));
    this.#clear();
    this.at = past.at.slice();
    for (const name of SERIES) this.series[name] = past[name].slice();
    added.forEach((news) => this.add(news));
  }

  add({ at, point }) {
    if (at <= (this.at.at(-1) ?? 0)) return;
    this.at.push(at);
    for (const name of SERIES) this.series[name].push(point[name]);
    if (this.at.length > SPAN) for (const values of [this.at, ...Object.values(this.series)]) values.shift();
  }

  /** A series, with null for seconds in which there was nothing to measure. */
  measured(name) {
    const counted = IF[name];
    return counted ? this.series[name].map((value, i) => (this.series[counted][i] ? value : null)) : this.series[name];
  }

  /** The numbers of the last second that has some of what is counted, and when that was. */
  last(counted) {
    const i = this.series[counted].findLastIndex((n) => n > 0);
    return i < 0 ? null : { at: this.at[i], point: Object.fromEntries(SERIES.map((name) => [name, this.series[name][i]])) };
  }
}

const charted = (title, chart) => h("section", { class: "card" }, h("h2", {}, title), chart.legend, chart.box);

function sentences(rows) {
  const held = rows.filter(({ ended }) => ended === null);
  return [
    held.length ? h("h2", { "data-key": "held" }, "Needs attention", h("span", { class: "pill" }, String(held.length)))
      : h("p", { class: "calm", "data-key": "calm" }, h("span", { class: "sign" }, SIGN.good), "Nothing needs attention."),
    rows.length ? h("ul", { class: "attention", "data-key": "list" }, rows.map(sentence)) : null,
  ];
}

function sentence(row) {
  const isOver = row.ended !== null;
  return h("li", { class: isOver ? "over" : row.level, "data-key": `${row.kind} ${row.key}` },
    h("span", { class: "sign", role: "img", "aria-label": isOver ? "over" : row.level }, isOver ? SIGN.good : SIGN[row.level]),
    h("span", { class: "what" }, h("b", {}, row.title), h("span", {}, row.text)),
    row.command && !isOver ? commandLine(row.command) : null,
    row.link ? h("a", { href: `#${row.link.replace(/^#/, "")}`, "aria-label": `Show: ${row.title}` }, "Show") : null);
}

/** A number with its history. What was not measured in this second is shown as it last was, or not at all. */
function tileOf({ name, series, least, value, under, if: counted, none }, { point, journal }, history) {
  const isHere = !counted || (counted === "journal" ? journal : point[counted]);
  const found = isHere ? { point } : counted in history.series ? history.last(counted) : null;
  const [number, unit] = found ? value(found.point) : [unmeasured(none), ""];
  return h("div", { class: "tile", "data-key": name }, h("h2", {}, h("span", { class: "quiet" }, name)),
    h("p", { class: "value" }, number, unit ? h("small", {}, ` ${unit}`) : null),
    h("p", { class: "quiet" }, found ? [under(found.point), found.at ? `, ${ago(found.at)}` : null] : none),
    spark(found ? history.measured(series).filter((each) => each !== null) : [], least));
}

function firstSteps() {
  return h("div", { class: "card first" }, h("h2", {}, "Nobody is connected"),
    hasChannels() ? [h("p", { class: "quiet" }, "Give it something to show, from two terminals of its machine. A click copies a line:"),
      h("ol", {}, h("li", {}, commandLine("headgate sub news", { whole: true })), h("li", {}, commandLine("headgate pub news 'rain tomorrow'", { whole: true })))]
      : h("p", { class: "quiet" }, "Nothing listens for clients of channels: add [listen.resp] to the configuration and restart."));
}

function pressed({ slow, at }) {
  const why = (row) => {
    if (row.waits_for) return `waits for ${called(row.waits_for)}`;
    const slowed = row.slow_since ? `slow for ${lasted(at - row.slow_since)}` : "";
    return row.held_up ? `holds up ${row.held_up}${slowed ? `, ${slowed}` : ""}` : slowed;
  };
  return card("Sessions under pressure", table([
    { name: "session", cell: sessionLink },
    { name: "wire", cell: (row) => pill(row.wire) },
    { name: "mailbox", class: "meter", cell: (row) => [mailbox(row), bytes(row.mailbox_bytes)] },
    { name: "why", cell: why },
  ], slow.slice(0, ROWS), "Everybody reads what is written to them.", { key: (row) => row.session }), { more: "#/sessions" });
}

function backlogs({ apps }) {
  return card("Apps by backlog", table([
    { name: "queue · app", cell: (row) => h("a", { href: `#/domains/${row.domain}/${row.name}` }, `${row.domain}/${row.name}${row.app ? ` · ${row.app}` : ""}`) },
    { name: "in line", number: true, cell: (row) => count(row.in_line + row.waiting) },
    { name: "aside", number: true, cell: (row) => (row.aside ? h("b", { class: "warn" }, count(row.aside)) : "0") },
    { name: "unconfirmed", number: true, cell: (row) => count(row.unconfirmed) },
    { name: "trend", number: true, cell: (row) => trend(row.growth_per_s) },
  ], apps.slice(0, ROWS), "No shared queue has anything undelivered.", { key: (row) => `${row.queue} ${row.app}` }), { more: "#/domains" });
}

function busiest({ top }) {
  return card("Busiest channels", table([
    { name: "channel", cell: (row) => h("code", {}, row.channel) },
    { name: "rate", class: "meter", cell: (row) => [bar(row.rate, top[0].rate), ` ${rate(row.rate)}/s`] },
    { name: "receivers", number: true, cell: (row) => count(row.receivers) },
    { name: "out", number: true, cell: (row) => `${rate(row.deliveries_per_s)}/s` },
  ], top.slice(0, ROWS), "Nothing was published in the last seconds.", { key: (row) => row.channel }), { more: "#/channels" });
}

function closed({ closed: gone }) {
  return card("Closed lately", table([
    { name: "when", class: "still", cell: (row) => clock(row.at) },
    { name: "session", cell: called },
    { name: "wire", cell: (row) => pill(row.wire) },
    { name: "reason", class: "whole", cell: (row) => row.reason },
  ], gone.slice(0, ROWS), "No session was closed.", { key: (row) => row.session }), { more: "#/sessions" });
}

export default { path: "", key: "o", title: "Overview", open };
