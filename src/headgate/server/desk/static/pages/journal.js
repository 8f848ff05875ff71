// The journal on disk, and what the pipeline made of it.

import { get } from "../api.js";
import { ago, bytes, clock, count, lasted, rate, since, some } from "../numbers.js";
import { bar, card, commandLine, empty, head, numbers, pill, table, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

function open(main) {
  const body = h("div", { class: "stack" });
  main.append(head("Journal & pipeline", { command: "headgate pipeline status", json: "/api/v1/journal" }), body);
  const refresh = new Refresh(async () => {
    const [journal, pipeline] = await Promise.all([get("journal"), get("pipeline")]);
    return () => morph(body, journalCard(journal), pipelineCards(pipeline));
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

function pipelineCards(pipeline) {
  if (!pipeline.known) {
    return card("Pipeline", h("div", { class: "stack" },
      empty("No pipeline has written tables where the router may look. It makes tables of the journal, on Spark:"),
      h("p", {}, commandLine("headgate pipeline run"))));
  }
  return [
    card("Tables", table([
      { name: "table", cell: (row) => h("code", {}, row.table) },
      { name: "rows", number: true, cell: (row) => count(row.rows) },
      { name: "behind", number: true, cell: (row) => (row.behind === null ? "–" : lasted(row.behind)) },
      { name: "ask", cell: (row) => commandLine(`headgate pipeline sql 'select * from ${row.table} limit 20'`) },
    ], pipeline.tables, "There are no tables yet.", { key: (row) => row.table }),
    { beside: h("span", { class: "quiet" }, [pipeline.directory, pipeline.updated ? `written ${ago(pipeline.updated)}` : null].filter(Boolean).join(", ")) }),
    card("Last batches", table([
      { name: "batch", cell: (row) => `#${count(row.batch)}` },
      { name: "ended", class: "still", cell: (row) => clock(row.at) },
      { name: "facts", number: true, cell: (row) => count(row.facts) },
      { name: "took", number: true, cell: (row) => lasted(row.took) },
    ], pipeline.batches, "No batch has ended yet.", { key: (row) => row.batch })),
    card("Tallies", pipeline.drifting.length ? table([
      { name: "service", cell: (row) => h("code", {}, row.service) },
      { name: "drift", cell: (row) => pill(row.drift, "warning") },
    ], pipeline.drifting, "", { key: (row) => row.service })
      : empty(pipeline.audited_at ? "✓ No service drifts." : "No audit has run. It compares what services say with what their queues add up to."),
    { beside: [pipeline.audited_at ? h("span", { class: "quiet" }, `last audit ${ago(pipeline.audited_at)}`) : null, commandLine("headgate pipeline audit")] }),
  ];
}

export default { path: "journal", key: "j", title: "Journal & pipeline", open };
