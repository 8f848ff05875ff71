// The configuration in effect: what was changed first, and where each value comes from.

import { act, isOperator } from "../actions.js";
import { get } from "../api.js";
import { count } from "../numbers.js";
import { card, empty, head, numbers, pill, search, table, trouble } from "../parts.js";
import { Refresh } from "../refresh.js";
import { h, morph } from "../ui.js";

function open(main) {
  let wanted = "";
  let found = null;
  const body = h("div", { class: "stack" });
  const show = () => found && morph(body, parts(found, wanted, () => refresh.now()));
  main.append(
    head("Settings", { command: "headgate config show", json: "/api/v1/settings" }),
    h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
      search("key, value or meaning", "", (text) => { wanted = text.toLowerCase(); show(); })),
    body);
  const refresh = new Refresh(async () => {
    const answer = await get("settings");
    return () => { found = answer; show(); };
  }, (error) => morph(body, trouble(error)), 10);
  return { leave: () => refresh.stop() };
}

function parts({ rows, warnings, after_restart: later, source, build }, wanted, again) {
  const fits = rows.filter((row) => [row.key, row.value, row.origin, row.meaning].some((text) => text?.toLowerCase().includes(wanted)));
  const changed = rows.filter((row) => row.changed).length;
  return [
    warnings.map((text) => h("p", { class: "notice", "data-key": text }, `▲ ${text}`)),
    later.length ? h("p", { class: "notice" }, "▲ Read again, and in effect after a restart: ", later.join(", ")) : null,
    h("section", { class: "card", "data-key": "build" }, h("h2", {}, "What is running"),
      numbers(
        ["version", build.version], ["Python", build.python], ["platform", build.platform], ["process", String(build.process)],
        ["open files at most", count(build.descriptors)], ["extras", build.extras.join(", ") || "none"], ["file", source ?? "none: only defaults and variables"]),
      isOperator() ? h("p", { class: "filters" },
        h("button", { type: "button", onclick: () => act("reload", { title: "Read the configuration again?", confirm: "reload", text: "Domains, certificates and the log level are taken over at once, as SIGHUP does.", verb: "Reload", then: again }) }, "Reload…"),
        h("button", { type: "button", onclick: () => act("drain", { title: "Drain the router?", confirm: "drain", text: "It says that it is not ready and takes no new connections; those that are there go on. Undrain takes that back.", verb: "Drain", level: "danger", then: again }) }, "Drain…"),
        h("button", { type: "button", onclick: () => act("undrain", { title: "Serve again?", confirm: "undrain", text: "It says that it is ready and takes connections again.", verb: "Undrain", then: again }) }, "Undrain…"),
        h("button", { type: "button", onclick: () => act("log-level", { title: "Log everything for ten minutes?", confirm: "debug", fields: { level: "debug" }, text: "Then it logs as configured again. For another level or time: headgate log-level.", verb: "Log it", then: again }) }, "Log more…")) : null),
    card("Configuration", h("div", { class: "settings" }, table([
      { name: "key", cell: (row) => h("code", {}, row.key) },
      { name: "value", cell: (row) => [h("code", {}, row.value ?? "–"), row.changed && row.default !== null && row.default !== row.value ? h("small", {}, ` default ${row.default}`) : null] },
      { name: "from", cell: (row) => (row.changed ? pill(row.origin, "") : h("span", { class: "quiet" }, row.origin)) },
      { name: "meaning", class: "whole", cell: (row) => row.meaning },
      { name: "takes effect", class: "still", cell: (row) => (row.reloadable ? "at a reload" : h("span", { class: "quiet" }, "at a restart")) },
    ], fits, empty("No key fits."), { key: (row) => row.key, mark: (row) => (row.changed ? "changed" : null) })),
    { beside: h("span", { class: "quiet" }, `${count(changed)} changed of ${count(rows.length)} keys; changed ones first`) }),
  ];
}

export default { path: "settings", key: "c", title: "Settings", open };
