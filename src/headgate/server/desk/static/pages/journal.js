// The journal on disk, and how to ask the pipeline what it made of it.

import { get } from "../api.js";
import { bytes, count, lasted, rate, since, some } from "../numbers.js";
import { bar, card, commandLine, empty, head, numbers, pill, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

function open(main) {
  const body = h("div", { class: "stack" });
  main.append(head("Journal & pipeline", { command: "headgate journal stats", json: "/api/v1/journal" }), body);
  const refresh = new Refresh(async () => {
    const journal = await get("journal");
    return () => morph(body, journalCard(journal), pipelineCard());
  }, (error) => morph(body, trouble(error)), 5);
  return { leave: () => refresh.stop() };
}

function journalCard(journal) {
  if (!journal.enabled) {
    return card("Journal", empty("No journal is kept: it needs a store that lasts, and [journal] enabled = true."));
  }
  return h("section", { class: "card", "data-key": "journal" },
    h("h2", {}, "Journal", journal.problem ? pill(journal.problem, "error") : pill("sealing", "good"), h("span", { class: "quiet" }, journal.directory)),
    numbers(
      ["facts sealed", count(journal.sealed)], ["a second", rate(journal.sealed_per_s)],
      ["not sealed yet", count(journal.lag), journal.lag > 100_000 ? "warn" : ""], ["outbox", bytes(journal.outbox_bytes)],
      ["segments", count(journal.segments)],
      ["on disk", journal.max_bytes ? [bar(journal.bytes, journal.max_bytes), ` ${bytes(journal.bytes)} of ${bytes(journal.max_bytes)}`] : bytes(journal.bytes)],
      ["oldest", journal.oldest_at ? lasted(since(journal.oldest_at)) : "–"], ["kept for", journal.keep ? lasted(journal.keep) : "ever"],
      ["sealer started", some(journal.sealer_starts, "time")]),
    h("p", { class: "filters" }, commandLine("headgate journal tail --follow"), commandLine("headgate journal verify")));
}

function pipelineCard() {
  const said = [
    ["makes tables of the journal, on Spark", "headgate pipeline run"],
    ["says how far they are, without Spark", "headgate pipeline status"],
    ["asks them", "headgate pipeline sql 'select app, outcome, count(*) n from deliveries group by all'"],
    ["compares what services say with what their queues add up to", "headgate pipeline audit"],
  ];
  return card("Pipeline", h("ul", { class: "plain-list stack" }, said.map(([what, command]) => h("li", {}, commandLine(command), h("span", { class: "quiet" }, ` ${what}`)))),
    { beside: h("span", { class: "quiet" }, "a program of its own, which the router does not know of") });
}

export default { path: "journal", key: "j", title: "Journal & pipeline", open };
