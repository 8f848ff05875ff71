// Channels by what is published, patterns, and a tail of what goes through: a sample that says so.

import { mayShowBodies } from "../actions.js";
import { address, get, whyRefused } from "../api.js";
import { bytes, clock, count, rate, some, verb } from "../numbers.js";
import { bar, card, head, pager, pick, pill, search, table, trouble, unmeasured } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

const SORTS = { rate: "most messages", bytes: "most bytes", receivers: "most receivers" };
const LINES = 200;
const LIMIT = 25;

function open(main, { query }) {
  const wanted = { sort: "rate", q: query.get("q") ?? "", offset: 0 };
  const patternsWanted = { offset: 0 };
  const body = h("div", { class: "stack" });
  const set = (changes) => { Object.assign(wanted, { offset: 0 }, changes); refresh.now(); };
  const setPatterns = (offset) => { patternsWanted.offset = offset; refresh.now(); };
  const tail = new Tail(query.get("tail") ?? "*");
  main.append(
    head("Channels", { command: "headgate channel ls", json: "/api/v1/channels" }),
    h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search("name of a channel", wanted.q, (q) => set({ q })), pick("Order", SORTS, "rate", (sort) => set({ sort }))),
    h("div", { class: "channels" }, body, tail.box));
  const refresh = new Refresh(async () => {
    const [channels, patterns] = await Promise.all([get("channels", { ...wanted, limit: LIMIT }), get("patterns", { ...patternsWanted, limit: LIMIT })]);
    return () => morph(body, channelCard(channels, wanted, set, tail), patternCard(patterns, patternsWanted.offset, setPatterns));
  }, (error) => morph(body, trouble(error)));
  return { leave: () => { refresh.stop(); tail.end(); } };
}

function channelCard({ rows, total, subscribed, counted }, { q, offset }, set, tail) {
  const most = Math.max(...rows.map((row) => row.rate), 0);
  const nothing = q ? "No channel of the last ten seconds has this in its name."
    : counted ? "Nothing was published in the last ten seconds." : "Nothing was published yet. Try: redis-cli publish news 'rain tomorrow'";
  return card("Channels", [
    total || subscribed || q ? h("p", { class: "quiet counted" }, `${q ? "With this in the name: " : ""}${some(total, "channel")} published to in the last ten seconds. ${some(subscribed, "channel")} ${verb(subscribed, "is", "are")} subscribed to by name, besides patterns.`) : null,
    table([
    { name: "channel", cell: (row) => h("button", { type: "button", class: "command", title: "Tail this one", onclick: () => tail.begin(row.channel) }, h("code", {}, row.channel)) },
    { name: "in", class: "meter", cell: (row) => [bar(row.rate, most), ` ${rate(row.rate)}/s`] },
    { name: "size", number: true, cell: (row) => `${bytes(row.bytes_per_s)}/s` },
    { name: "receivers", number: true, cell: (row) => count(row.receivers) },
    { name: "out", number: true, cell: (row) => `${rate(row.deliveries_per_s)}/s` },
    { name: "heard by patterns", cell: (row) => (row.patterns_hearing.length ? h("code", {}, row.patterns_hearing.join(" ")) : unmeasured("No pattern matches it")) },
  ], rows, nothing, { key: (row) => `${row.kind} ${row.channel}` }), pager(offset, rows.length, LIMIT, total, (to) => set({ offset: to }))],
  { beside: pill(count(total)) });
}

function patternCard({ rows, total }, offset, go) {
  return card("Patterns", [table([
    { name: "pattern", cell: (row) => h("code", {}, row.pattern) },
    { name: "sessions", number: true, cell: (row) => count(row.sessions) },
    { name: "matched", number: true, cell: (row) => `${rate(row.matched_per_s)}/s` },
  ], rows, "Nobody subscribed to a pattern.", { key: (row) => row.pattern }), pager(offset, rows.length, LIMIT, total, go)],
  { beside: pill(count(total)) });
}

/** What is published on channels that match a pattern, at most twenty messages a second. */
class Tail {
  constructor(pattern) {
    this.source = null;
    this.lines = h("ol", { class: "lines", "aria-label": "Messages, newest first", tabindex: "0" });
    this.state = h("p", { class: "quiet", role: "status" });
    this.pattern = h("input", { type: "text", value: pattern, "aria-label": "Pattern", spellcheck: "false" });
    this.where = h("input", { type: "text", "aria-label": "Where, an expression", placeholder: "where, an expression", spellcheck: "false" });
    this.bodies = h("input", { type: "checkbox", id: "bodies" });
    this.wrap = h("input", { type: "checkbox", id: "wrap", onchange: () => this.lines.classList.toggle("wrap", this.wrap.checked) });
    this.button = h("button", { class: "primary" }, "Tail");
    this.box = h("section", { class: "card tail" }, h("h2", {}, "Tail", h("span", { class: "quiet" }, "channels and shared queues; at most 20 messages a second, newest first")),
      h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); if (this.source) this.end(); else this.begin(this.pattern.value); } }, this.pattern, this.where, this.button),
      h("p", { class: "filters quiet" }, h("button", { type: "button", onclick: () => this.#clear() }, "Clear"), check(this.wrap, "wrap lines"), mayShowBodies() ? check(this.bodies, "show bodies") : "Bodies are not shown: desk.bodies = false."),
      this.state, this.lines);
    this.#clear();
  }

  begin(pattern) {
    this.end();
    this.#clear();
    this.pattern.value = pattern;
    this.source = new EventSource(address("tail", { pattern, where: this.where.value.trim(), bodies: this.bodies.checked && mayShowBodies() }));
    this.button.textContent = "▮▮ Stop";
    this.state.textContent = `listening to ${pattern}`;
    this.source.addEventListener("message", ({ data }) => this.#add(JSON.parse(data)));
    this.source.addEventListener("skipped", ({ data }) => this.#skipped(JSON.parse(data).count));
    this.source.addEventListener("end", () => this.end("It ended after ten minutes; begin again if you still look."));
    this.source.addEventListener("error", () => this.#broken());
  }

  end(why = "") {
    this.source?.close();
    this.source = null;
    this.button.textContent = "Tail";
    this.state.textContent = why;
  }

  async #broken() {
    const url = this.source?.url;
    this.end("");
    if (!url) return;
    const why = await whyRefused(url);
    this.state.textContent = why ? `✕ ${why.message} ${why.hint ?? ""}` : "It ended. Begin again if you still look.";
  }

  #add({ at, channel, queue, size, properties, body }) {
    const said = body ?? (Object.keys(properties).length ? JSON.stringify(properties) : bytes(size));
    this.#line(h("li", {}, h("time", {}, clock(at, true)), h("b", {}, channel ?? queue), h("span", {}, said)));
  }

  #skipped(n) { if (n) this.#line(h("li", { class: "skipped" }, `… ${count(n)} more in this second ${verb(n, "was", "were")} not shown`)); }

  #line(line) {
    if (this.isEmpty) this.lines.replaceChildren();
    this.isEmpty = false;
    this.lines.prepend(line);
    while (this.lines.children.length > LINES) this.lines.lastChild.remove();
  }

  #clear() {
    this.isEmpty = true;
    this.lines.replaceChildren(h("li", { class: "quiet" }, "What is published shows up here while you tail."));
  }
}

const check = (box, text) => h("label", { class: "check", for: box.id }, box, text);

export default { path: "channels", key: "h", title: "Channels", open };
