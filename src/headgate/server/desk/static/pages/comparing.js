// Two sets of subscriptions on recent messages: who gets what before, and who after.

import { get, post } from "../api.js";
import { count } from "../numbers.js";
import { openQueues, queuePath } from "../open_queues.js";
import { empty, head, numbers, table, trouble } from "../parts.js";
import { written } from "../properties.js";
import { h, morph } from "../ui.js";

const TYPING_MS = 400;
const KNOWN = 20; // queues that are offered
const LINE = /^\s*(\S+)\s+(-?\d+)\s*(.*?)\s*$/;
const NO_APP = "-"; // in place of an app, where a domain has none
const EVERYTHING = "(every message)";

/** Subscriptions as they are written: an app, a priority and an expression, one a line. */
function parsed(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const wrong = lines.filter((line) => !LINE.test(line));
  if (wrong.length) throw new Error(`Write APP PRIORITY EXPRESSION, like shipping 10 kind == "express"; not ${wrong[0].trim().slice(0, 80)}`);
  return lines.map((line) => {
    const [, app, priority, expression] = LINE.exec(line);
    return { app: app === NO_APP ? "" : app, priority: Number(priority), expression: expression === EVERYTHING || !expression ? null : expression };
  });
}

const writtenSet = ({ apps }) => apps.flatMap(({ app, groups }) => groups.map((group) => `${app || NO_APP} ${group.priority} ${group.expression ?? EVERYTHING}`)).join("\n");

/** Which queue is meant, where the address does not say it. */
function openChoice(main) {
  const body = h("div", {}, empty("Looking for queues …"));
  main.append(head("Compare", { text: "two sets of subscriptions, on recent messages" }),
    h("section", { class: "card stack" }, h("h2", {}, "Subscriptions of which queue?"), body));
  get("domains").then((domains) => openQueues(domains, KNOWN)).then((paths) => morph(body, paths.length
    ? h("ul", { class: "chips" }, paths.map((path) => h("li", {}, h("a", { href: `#/playground/compare?${new URLSearchParams({ queue: `bmq://${path}` })}` }, path))))
    : empty("Nobody has opened a queue yet. A queue is opened by its first client: headgate sub bmq://DOMAIN/QUEUE"))).catch((error) => morph(body, trouble(error)));
  return {};
}

export function openComparing(main, query) {
  if (!query.get("queue")) return openChoice(main);
  const state = { queue: query.get("queue") ?? "", before: query.get("before"), after: query.get("after") };
  const answer = h("div", { class: "stack", "aria-live": "polite" });
  const area = (name, label) => h("textarea", { id: name, rows: 8, "aria-label": label, spellcheck: "false", oninput: ({ target }) => { state[name] = target.value; later(); } });
  const before = area("before", "Before");
  const after = area("after", "After");
  const path = state.queue.replace("bmq://", "");
  let timer, number = 0, isOver = false;
  main.append(
    head("Compare", { text: `subscriptions of ${path}, on recent messages` }),
    h("p", {}, h("a", { href: `#/playground?${new URLSearchParams({ queue: state.queue })}` }, "‹ playground")),
    h("div", { class: "halves" },
      h("section", { class: "card stack" }, h("h2", {}, "Before", h("span", { class: "quiet" }, "as it is now, or as you write it")), before),
      h("section", { class: "card stack" }, h("h2", {}, "After", h("span", { class: "quiet" }, "an app, a priority, an expression; one a line")), after)),
    h("section", { class: "card stack" }, h("h2", {}, "What would change", h("span", { class: "quiet" }, "a preview, on recent messages")), answer));

  const later = () => { clearTimeout(timer); timer = setTimeout(look, TYPING_MS); };

  async function begin() {
    if (state.before === null || state.after === null) {
      const found = await get(queuePath(path)).catch((error) => error);
      if (isOver) return;
      if (found instanceof Error) morph(answer, trouble(found));
      else {
        state.before ??= writtenSet(found);
        state.after ??= writtenSet(found);
      }
    }
    before.value = state.before ?? "";
    after.value = state.after ?? "";
    if (state.before !== null) look();
  }

  async function look() {
    const mine = ++number;
    history.replaceState(null, "", `#/playground/compare?${new URLSearchParams(state)}`);
    let shown;
    try {
      shown = changes(await post("expressions/compare", { domain: path.split("/")[0], before: parsed(state.before), after: parsed(state.after) }));
    } catch (error) {
      if (error.status === 429) later();
      shown = trouble(error);
    }
    if (!isOver && mine === number) morph(answer, shown);
  }

  begin();
  return { leave: () => { isOver = true; clearTimeout(timer); } };
}

function changes({ recent, unchanged, moved, orphaned, newly_matched: matched }) {
  if (!recent) return empty("No message of this domain is remembered yet. Send some with properties, and the sets are tried on them.");
  const to = (text) => (text === null ? h("span", { class: "warn" }, "nobody") : h("code", {}, text));
  return [
    numbers(["recent messages", count(recent)], ["stay where they are", count(unchanged)], ["go elsewhere", count(recent - unchanged), recent > unchanged ? "warn" : ""],
      ["reach nobody any more", count(orphaned), orphaned ? "bad" : ""], ["reach somebody now", count(matched), matched ? "good" : ""]),
    table([
      { name: "messages", number: true, cell: (row) => count(row.count) },
      { name: "app", cell: (row) => row.app || "–" },
      { name: "before", cell: (row) => to(row.before) },
      { name: "after", cell: (row) => to(row.after) },
      { name: "one of them", class: "whole", cell: (row) => h("code", {}, written(row.sample.properties).replaceAll("\n", ", ")) },
    ], moved, recent === 1 ? "The one message goes where it went." : `All ${count(recent)} messages go where they went.`, { key: (row) => `${row.app} ${row.before} ${row.after}` }),
  ];
}
