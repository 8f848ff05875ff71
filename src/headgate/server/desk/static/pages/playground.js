// Type an expression: how it is read, what it says of a message, whose messages it would take, and
// who would get this one. Everything that was typed is in the address, so that it can be shared.

import { get, post, Refused } from "../api.js";
import { ago, count, some, verb } from "../numbers.js";
import { openQueues, queuePath } from "../open_queues.js";
import { bar, called, commandLine, empty, head, pill, trouble } from "../parts.js";
import { parsed, written } from "../properties.js";
import { h, morph } from "../ui.js";
import { openComparing } from "./comparing.js";

const START = {
  expression: 'kind == "express" && amount >= 250', queue: "", app: "", priority: "0",
  properties: 'kind = "express"\nregion = "eu"\namount = 1250\nweight = 12',
};
const TYPING_MS = 250; // five expressions a second are tried
const AGAIN_MS = 1000;
const CHIPS = 8;
const KNOWN = 20; // queues that are suggested

/** Whether a question was refused only because there are so many. */
const isTooMuch = (error) => error instanceof Refused && (error.status === 429 || error.status === 503);

function open(main, { of, query }) {
  if (of === "compare") return openComparing(main, query);
  const playground = new Playground(main, query);
  return { leave: () => playground.leave() };
}

class Playground {
  constructor(main, query) {
    this.state = Object.fromEntries(Object.entries(START).map(([name, value]) => [name, query.get(name) ?? value]));
    this.aside = query.get("aside"); // an app whose messages that match nobody are shown
    if (this.aside !== null && !query.has("app")) this.state.app = this.aside;
    this.isGiven = query.has("properties");
    this.isAsked = query.has("expression");
    this.isRanked = query.has("priority");
    this.number = 0;
    this.parts = Object.fromEntries(["error", "wrong", "read", "fit", "recent", "known", "who", "share"].map((name) => [name, h("div", {})]));
    this.parts.error.className = "caret";
    this.parts.error.setAttribute("role", "alert");
    this.parts.recent.className = "chips";
    this.parts.known.className = "known";
    this.parts.share.className = "share";
    this.#build(main);
    this.#begin();
  }

  leave() {
    this.isOver = true;
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  #build(main) {
    const { parts, state } = this;
    const area = (name, label, rows, more = {}) => h("label", { for: name }, label, h("textarea", { id: name, rows, spellcheck: "false", autocapitalize: "off", value: state[name], oninput: ({ target }) => this.#typed(name, target.value), ...more }));
    const line = (name, label, more = {}) => h("label", { for: name, class: more.type === "number" ? "short" : more.list ? "long" : null }, label,
      h("input", { id: name, value: state[name], spellcheck: "false", autocomplete: "off", oninput: ({ target }) => this.#typed(name, target.value), ...more }));
    this.known = h("datalist", { id: "known" });
    this.which = h("p", { class: "quiet" });
    this.#title();
    main.append(
      head("Playground", { text: "an expression, a message, and who would get it" }),
      h("div", { class: "playground" },
        h("section", { class: "card ask", "aria-label": "The expression and a message" },
          area("expression", "Expression", 2, { "data-search": true }), parts.error, parts.known,
          h("div", { class: "row" }, line("queue", "Queue", { list: "known", placeholder: "bmq://DOMAIN/QUEUE" }), line("app", "App"), line("priority", "Priority", { type: "number" })),
          area("properties", "A message with these properties, one a line", 6), parts.wrong,
          this.which, parts.recent,
          h("p", { class: "quiet" }, "The same in a terminal, or as a link:"), parts.share),
        h("section", { class: "card" }, h("h2", {}, "How it is read"), parts.read),
        h("section", { class: "card" }, h("h2", {}, "If somebody subscribed with it"), parts.fit),
        h("section", { class: "card across" }, h("h2", {}, "Who would get the message now", h("span", { class: "quiet" }, "nothing is sent, nobody's turn passes")), parts.who)),
      this.known);
  }

  async #begin() {
    const paths = await get("domains").then((domains) => openQueues(domains, KNOWN)).catch(() => []);
    if (this.isOver) return;
    morph(this.known, paths.map((path) => h("option", { value: `bmq://${path}` })));
    const isChosen = Boolean(this.state.queue);
    if (!isChosen && paths.length) this.#write("queue", `bmq://${paths[0]}`);
    await this.#showKnown(isChosen);
    await this.#showRecent(true);
    if (!this.isOver) this.#look();
  }

  /** The expressions that consumers have now, to begin with one. Without an app, that of the queue with most of them. */
  async #showKnown(isChosen) {
    const path = this.state.queue.replace("bmq://", "");
    const { apps } = path.includes("/") ? await get(queuePath(path)).catch(() => ({ apps: [] })) : { apps: [] };
    if (this.isOver) return;
    const [richest] = apps.toSorted((a, b) => b.expressions - a.expressions);
    if (!isChosen) this.#write("app", richest?.app ?? "");
    const groups = (apps.find(({ app }) => app === this.state.app)?.groups ?? []).filter(({ expression }) => expression !== null);
    const take = ({ expression, priority }) => { this.#write("expression", expression); this.#write("priority", String(priority)); };
    morph(this.parts.known, groups.length ? [h("p", { class: "quiet" }, `What ${this.state.app ? `consumers of ${this.state.app}` : "its consumers"} subscribed with:`),
      h("div", { class: "chips" }, groups.slice(0, CHIPS).map((group) => h("button", {
        type: "button", "data-key": `${group.priority} ${group.expression}`, title: `priority ${group.priority}, matched ${count(group.matched)}`, onclick: () => { take(group); this.#look(); },
      }, h("code", {}, group.expression))), groups.length > CHIPS ? h("span", { class: "quiet" }, `and ${some(groups.length - CHIPS, "more expression")}`) : null)] : null);
    if (!this.isAsked && groups.length) take({ ...groups[0], priority: this.isRanked ? this.state.priority : groups[0].priority });
    this.isAsked = true;
  }

  #write(name, value) {
    this.state[name] = value;
    document.getElementById(name).value = value;
  }

  #typed(name, value) {
    this.state[name] = value;
    if (name === "properties") this.isGiven = true; // and not for a message that comes later to replace
    if (name === "expression") this.isAsked = true;
    if (name === "queue" || name === "app") this.#forgetAside();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.#look();
      if (name === "queue") this.#showRecent(false);
      if (name === "queue" || name === "app") this.#showKnown(true);
    }, TYPING_MS);
  }

  /** Of another queue or app, other messages match nobody. */
  #forgetAside() {
    if (this.aside === null) return;
    this.aside = null;
    this.#title();
    this.#showRecent(false);
  }

  #title() { this.which.textContent = this.aside !== null ? "Messages that match nobody, the newest first:" : "Or one that came lately:"; }

  async #showRecent(isFirst) {
    const wanted = this.aside !== null ? { queue: this.state.queue, aside: this.aside } : { queue: this.state.queue };
    const { rows } = this.state.queue ? await get("recent", wanted).catch(() => ({ rows: [] })) : { rows: [] };
    if (this.isOver) return;
    morph(this.parts.recent, rows.length ? rows.slice(0, CHIPS).map((row) => h("button", {
      type: "button", "data-key": row.message, title: `${Object.entries(row.properties).map(([name, value]) => `${name}=${shown(value)}`).join(" ")}, ${ago(row.at)}`,
      onclick: () => { this.#write("properties", written(row.properties)); this.#look(); },
    }, Object.values(row.properties).slice(0, 4).map(shown).join(" · ") || "(no properties)")) : h("span", { class: "quiet" }, this.aside !== null ? "none any more: each that waits matches somebody" : "none is remembered; messages with properties show up here when they come"));
    if (isFirst && !this.isGiven && rows.length) this.#write("properties", written(rows[0].properties));
  }

  async #look() {
    const number = ++this.number;
    this.asking?.abort();
    this.asking = new AbortController();
    const { expression, queue, app, priority } = this.state;
    const { properties, mistakes } = parsed(this.state.properties);
    morph(this.parts.wrong, mistakes.map((text) => h("p", { class: "warn" }, `▲ ${text}`)));
    this.#share(properties);
    const domain = queue.replace("bmq://", "").split("/")[0];
    const options = { signal: this.asking.signal };
    const answers = await Promise.allSettled([
      post("expression", { expression, properties, domain, queue, app, priority: Number(priority) || 0 }, options),
      queue ? post("explain", { queue, properties }, options) : Promise.resolve(null)]);
    if (this.isOver || number !== this.number) return;
    const [read, who] = answers.map(({ status, value, reason }) => (status === "fulfilled" ? value : reason));
    if ([read, who].some(isTooMuch)) {
      this.timer = setTimeout(() => this.#look(), AGAIN_MS);
      return;
    }
    if (read instanceof Error) morph(this.parts.read, trouble(read));
    else { this.#showRead(read); this.#showFit(read); }
    morph(this.parts.who, whoGets(who));
  }

  #share(properties) {
    const said = Object.fromEntries(Object.entries(this.state).filter(([, value]) => value !== ""));
    if (this.aside !== null) said.aside = this.aside;
    history.replaceState(null, "", `#/playground?${new URLSearchParams(said)}`);
    const { expression, queue } = this.state;
    const sent = Object.entries(properties).map(([name, value]) => ` --property ${quoted(option(name, value))}`).join("");
    const path = queue.replace("bmq://", "");
    const dash = expression.startsWith("-") ? "-- " : "";
    morph(this.parts.share,
      commandLine(`headgate expr check ${dash}${quoted(expression)}`),
      queue ? commandLine(`headgate explain ${quoted(path)}${sent}`) : null,
      commandLine(location.href, { text: "copy as a link", classes: "link" }),
      queue ? h("a", { href: `#/playground/compare?${new URLSearchParams({ queue })}` }, "compare sets of subscriptions") : null);
  }

  #showRead(read) {
    const { parts } = this;
    if (!read.ok) {
      const text = [...this.state.expression].map((letter) => (/\p{C}/u.test(letter) ? " " : letter));
      morph(parts.error,
        read.offset === null ? null : h("pre", {}, `${text.join("")}\n${" ".repeat(read.offset)}^`),
        h("p", { class: "bad" }, `✕ ${read.message}. `, read.hint ? h("b", {}, `Hint: ${read.hint}.`) : null));
      morph(parts.read, empty("It cannot be read."));
      return;
    }
    morph(parts.error, read.warnings.map((text) => h("p", { class: "warn" }, `▲ ${text}`)));
    const verdict = read.result === "true" ? pill("matches this message", "good") : read.result === "false" ? pill("does not match: it is false")
      : pill("does not match: it has no value", "warning");
    verdict.classList.add("big");
    morph(parts.read, h("p", {}, verdict), read.reason ? h("p", { class: "warn" }, read.reason) : null, h("ul", { class: "tree" }, branch(read.tree)),
      h("h3", {}, "Looked up by"),
      read.keys === null ? h("p", { class: "quiet" }, "nothing: it is tried on every message")
        : h("ul", { class: "plain-list" }, read.keys.map((key, i) => h("li", {}, i ? "or " : "", h("code", {}, key)))));
  }

  #showFit(read) {
    const { fit } = this.parts;
    if (!read.ok) return morph(fit, empty("What it would take is shown once it can be read."));
    const { app, priority, queue } = this.state;
    const domain = queue.replace("bmq://", "").split("/")[0];
    const week = h("p", { class: "quiet" }, "All that the journal has: ", commandLine(`headgate pipeline dryrun ${quoted(this.state.expression)}${domain ? ` --domain ${domain}` : ""}`));
    if (!read.recent || !read.tried) return morph(fit, empty("No message of this domain is remembered yet. Send some with properties, and it is tried on them."), week);
    const { true: yes, false: no, ...open } = read.tried;
    const part = (n, name, level) => (n ? h("span", { class: level }, h("b", {}, count(n)), ` ${name}`) : null);
    return morph(fit,
      h("p", { class: "quiet" }, read.recent === 1 ? "of the last message of the domain" : `of the last ${count(read.recent)} messages of the domain`),
      h("div", { class: "split" }, bar(yes, read.recent, "good"), part(yes, verb(yes, "matches", "match"), "good"), part(no, verb(no, "does not", "do not"), ""),
        Object.entries(open).map(([kind, n]) => part(n, `undecided (${kind.toUpperCase()})`, "warn"))),
      h("h3", {}, `With priority ${Number(priority) || 0} in ${app || "the app"} it would take`),
      read.impact.length ? h("ul", { class: "plain-list impact" }, read.impact.map(taken))
        : h("p", { class: "quiet" }, yes ? "nothing: a higher priority has them all" : "nothing"),
      h("p", {}, commandLine(`headgate expr impact ${quoted(this.state.expression)} --queue ${quoted(queue.replace("bmq://", ""))}${app ? ` --app ${quoted(app)}` : ""} --priority ${Number(priority) || 0}`)),
      week);
  }
}

function taken(row) {
  const expression = h("code", {}, row.expression ?? "(every message)");
  return h("li", {}, h("b", {}, count(row.count)),
    row.priority === null ? " that match nobody now" : [row.shares ? " shared with " : " from ", expression, h("small", { class: "quiet" }, ` priority ${row.priority}`)]);
}

const FAILURES = { NAME: "NAME: not in the message", TYPE: "TYPE: does not fit", ARITHMETIC: "ARITHMETIC: no number" };

function branch({ label, kind, value, parts }) {
  const level = value === "true" ? "good" : FAILURES[value] && kind !== "literal" ? "warning" : value === null ? "none" : "";
  const text = value === null ? "not reached" : FAILURES[value] ?? value;
  return h("li", {}, h("span", { class: `node ${kind}` }, label), kind === "literal" ? null : h("span", { class: `answer ${level}`.trim() }, text),
    parts.length ? h("ul", {}, parts.map(branch)) : null);
}

const OUTCOMES = {
  delivered: ["good", "goes to"], "auto-confirmed": ["", "auto-confirmed"], waits: ["warning", "waits for"], "put aside": ["warning", "put aside"],
  "in line": ["warning", "in line"], "reaches nobody": ["warning", "reaches nobody"], "unknown app": ["error", "unknown app"],
};

function whoGets(told) {
  if (told === null) return empty("Say a queue, like bmq://orders/incoming.");
  if (told instanceof Error) return trouble(told);
  return [
    told.refused ? h("p", { class: "bad" }, `✕ It would be refused: ${told.refused}. With room for it:`) : null,
    told.is_open ? null : empty("Nobody has opened the queue since the router started."),
    h("div", { class: "apps" }, told.apps.map(appOf)),
  ];
}

function appOf(app) {
  const [level, verb] = OUTCOMES[app.outcome] ?? ["", app.outcome];
  const people = (app.receivers.length ? app.receivers : app.waits_for).map(called);
  const more = Math.max(app.receivers_all ?? 0, people.length) - Math.min(3, people.length);
  return h("div", { class: `app ${level}`.trim(), "data-key": app.app },
    h("h3", {}, app.app || "(whole queue)", pill(`${verb} ${people.slice(0, 3).join(", ")}${more ? ` and ${more} more` : ""}`.trim(), level)),
    h("p", { class: "quiet" }, app.reason),
    app.filters.map((filter) => h("p", {}, h("span", { class: "quiet" }, "filter"), h("span", {}, h("code", {}, filter.expression), " ", answered(filter)))),
    app.groups.map((group) => h("div", { class: `group ${group.answer.result === true ? "" : "no"}`.trim() },
      h("p", {}, h("span", { class: "priority", title: "priority" }, String(group.priority)), h("span", {}, h("code", {}, group.answer.expression ?? "(every message)"), " ", answered(group.answer))),
      group.answer.result === true ? group.members.map(member) : null,
      group.left_out ? h("p", { class: "quiet" }, `and ${count(group.left_out)} more`) : null)),
    app.left_out ? h("p", { class: "quiet" }, `and ${some(app.left_out, "more expression")}`) : null);
}

const answered = ({ result, reason }) => h("span", { class: `answer ${result === true ? "good" : result === false ? "" : "warning"}`.trim() }, reason);

function member(each) {
  return h("p", { class: each.gets ? "member gets" : "member" }, h("b", {}, called(each)),
    each.session < 0 ? [h("span", {}), h("small", {}, `${count(each.unconfirmed)} held`)]
      : [bar(each.unconfirmed, each.window.messages, each.state === "full" ? "bad" : ""), h("small", {}, `${count(each.unconfirmed)} of ${count(each.window.messages)}`)],
    each.gets ? h("span", { class: "good" }, "✓ gets it") : h("span", { class: "why" }, each.reason));
}

const shown = (value) => (value?.hex !== undefined ? `0x${value.hex}` : String(value));
const quoted = (text) => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A property as the command line wants it. */
function option(name, value) {
  if (value?.hex !== undefined) return `${name}:binary=${value.hex}`;
  if (typeof value !== "string") return `${name}=${value?.rawJSON ?? value}`;
  return /^(true|false|-?\d+)$/.test(value) || value.startsWith('"') ? `${name}:string=${value}` : `${name}=${value}`;
}

export default { path: "playground", key: "p", title: "Playground", open };
