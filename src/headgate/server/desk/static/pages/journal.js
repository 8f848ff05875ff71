// The journal on disk, and how far the pipeline is with it.

import { act, isOperator } from "../actions.js";
import { get } from "../api.js";
import { bytes, clock, count, exact, lasted, rate, since, some, verb } from "../numbers.js";
import { bar, card, commandLine, empty, head, numbers, pill, table, trouble, unmeasured } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

function open(main) {
  const parts = [h("div", { class: "stack" }), h("div", { class: "stack" }), h("div", { class: "stack" })];
  main.append(head("Journal & pipeline", { command: "headgate journal stats", json: "/api/v1/journal" }), ...parts);
  // The pipeline is asked by a program of its own, which takes some seconds.
  const shown = [["journal", journalCard, 5], ["pipeline", pipelineCard, 30], ["audit", auditCard, 3]].map(([path, card, seconds], i) => new Refresh(async () => {
    const found = await get(path);
    return () => morph(parts[i], card(found, () => shown[i].now()));
  }, (error) => morph(parts[i], trouble(error)), seconds));
  return { leave: () => shown.forEach((refresh) => refresh.stop()) };
}

function journalCard(journal) {
  if (!journal.enabled) {
    return card("Journal", empty("No journal is kept: it needs a store that lasts, and [journal] enabled = true."));
  }
  return h("section", { class: "card", "data-key": "journal" },
    h("h2", {}, "Journal", journal.problem ? pill(journal.problem, "error") : pill("sealing", "good"), h("span", { class: "quiet" }, journal.directory)),
    numbers(
      ["facts sealed", exact(journal.sealed)], ["a second", rate(journal.sealed_per_s)],
      ["not sealed yet", count(journal.lag), journal.lag > 100_000 ? "warn" : ""], ["outbox", bytes(journal.outbox_bytes)],
      ["segments", count(journal.segments)],
      ["on disk", journal.max_bytes ? [bar(journal.bytes, journal.max_bytes), ` ${bytes(journal.bytes)} of ${bytes(journal.max_bytes)}`] : bytes(journal.bytes)],
      ["oldest segment", journal.oldest_at ? lasted(since(journal.oldest_at)) : unmeasured("Nothing is sealed yet")], ["kept for", journal.keep ? lasted(journal.keep) : "ever"],
      ["sealer started", some(journal.sealer_starts, "time")]),
    h("p", { class: "filters" }, commandLine("headgate journal tail --follow"), commandLine("headgate journal verify")));
}

function pipelineCard(pipeline) {
  const said = [
    ["makes tables of the journal, on Spark", "headgate pipeline run"],
    ["says how far they are, without Spark", "headgate pipeline status"],
    ["asks them", "headgate pipeline sql 'select app, outcome, count(*) n from deliveries group by all'"],
    ["compares what services say with what their queues add up to", "headgate pipeline audit"],
  ];
  const commands = h("ul", { class: "plain-list stack" }, said.map(([what, command]) => h("li", {}, commandLine(command), h("span", { class: "quiet" }, ` ${what}`))));
  if (!pipeline.known) {
    return card("Pipeline", h("div", { class: "stack" }, empty(`It is a program of its own, and the router does not see its tables: ${pipeline.problem || "there are none"}.`), commands));
  }
  const none = () => unmeasured("No batch was made yet");
  const took = pipeline.batch_seconds === null ? none() : `${lasted(pipeline.batch_seconds)}, at most ${lasted(pipeline.batch_seconds_max)}`;
  return card("Pipeline", h("div", { class: "stack" }, numbers(
    ["facts in tables", count(pipeline.facts_in_tables)], ["behind", `${some(pipeline.lag_facts, "fact")}, ${lasted(pipeline.lag_seconds)}`, pipeline.lag_seconds > 600 ? "warn" : ""],
    ["last batch", pipeline.batch === null ? none() : `#${count(pipeline.batch)}`], ["a batch takes", took],
    ["facts in a batch", pipeline.batch_facts === null ? none() : count(pipeline.batch_facts)],
    pipeline.segments_corrupt ? ["damaged segments", count(pipeline.segments_corrupt), "bad"] : null), commands),
  { beside: h("span", { class: "quiet" }, [pipeline.tables, pipeline.at ? `as of ${clock(pipeline.at)}` : null].filter(Boolean).join(", ")) });
}

const STATES = { running: ["", "running"], done: ["good", "done"], failed: ["error", "failed"] };

function auditCard(audit, again) {
  const [level, text] = STATES[audit.state] ?? [];
  const ask = () => act("audit", { title: "Count the queues of services again?", confirm: "audit", text: "A program of its own reads the store and takes a minute or more; the router goes on meanwhile.", verb: "Audit", then: again });
  return h("section", { class: "card stack", "data-key": "audit" },
    h("h2", {}, "Audit", text ? pill(text, level) : null, h("span", { class: "quiet" }, "do the tallies of services add up?")),
    audited(audit),
    isOperator() ? h("p", {}, h("button", { type: "button", disabled: audit.state === "running", onclick: ask }, "Audit…"))
      : h("p", { class: "quiet" }, "Without the operator's token: ", commandLine("headgate pipeline audit")));
}

function audited(audit) {
  if (audit.state === "never") return empty("None was asked for since the router started.");
  if (audit.state === "running") return h("p", { role: "status" }, `It began ${lasted(since(audit.started))} ago.`);
  if (audit.state === "failed") return h("p", { class: "notice error" }, `✕ ${audit.problem}`);
  const told = `${some(audit.services, "service")} counted at ${clock(audit.ended)}, in ${lasted(audit.ended - audit.started)}: ${audit.drifting ? `${count(audit.drifting)} ${verb(audit.drifting, "drifts", "drift")}` : "none drifts"}.`;
  return [h("p", { class: audit.drifting ? "warn" : "good" }, told), audit.rows.length ? table([
    { name: "service", cell: (row) => h("code", {}, row.service.slice(0, 16)) },
    { name: "queues in the store", number: true, cell: (row) => exact(row.counted) },
    { name: "in its tally", number: true, cell: (row) => exact(row.told) },
    { name: "drift", cell: (row) => pill(row.drift, "warning") },
  ], audit.rows, "", { key: (row) => row.service }) : null];
}

export default { path: "journal", key: "j", title: "Journal & pipeline", open };
