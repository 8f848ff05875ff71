// The frame: a page by what is behind the # of the address, one stream of news for all of them.

import { isOperator, learnRights } from "./actions.js";
import { keys } from "./keys.js";
import { lasted, some } from "./numbers.js";
import { Stream } from "./stream.js";
import { h, morph } from "./ui.js";
import channels from "./pages/channels.js";
import domains from "./pages/domains.js";
import facts from "./pages/facts.js";
import journalPage from "./pages/journal.js";
import overview from "./pages/overview.js";
import playground from "./pages/playground.js";
import queues from "./pages/queues.js";
import sessions from "./pages/sessions.js";
import settings from "./pages/settings.js";

const PAGES = [overview, sessions, domains, playground, channels, queues, journalPage, facts, settings];
const SILENT_MS = 4_000;

const main = document.getElementById("main");
const state = document.getElementById("state");
const refused = document.getElementById("refused");
const stream = new Stream();
const started = Date.now();
let page = null;
let view = null; // what the page does with news, and when it is left

/** What the address says: a page, what of it, and how it is to be shown. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const found = PAGES.find((each) => each.path === name);
  return { page: found ?? overview, of: rest.map(decodeURIComponent).join("/"), query: new URLSearchParams(query ?? "") };
}

function show() {
  if (location.hash && !location.hash.startsWith("#/")) return; // the link that skips to the content
  view?.leave?.();
  const here = place();
  const isOther = page !== here.page;
  page = here.page;
  document.title = `${page.title} · Headgate`;
  showPages(holding(stream.last));
  document.querySelector("nav [aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  main.replaceChildren();
  view = page.open(main, here) ?? {};
  if (stream.last) {
    showAbout(stream.last);
    view.tick?.(stream.last);
  }
  if (isOther) scrollTo(0, 0);
}

/** How much needs attention now; what is over does not. */
const holding = (news) => news?.attention.filter(({ ended }) => ended === null).length ?? 0;

function showPages(attention) {
  morph(document.getElementById("nav"), PAGES.map(({ path, title }) =>
    h("a", { href: `#/${path}`, "aria-current": path === page.path ? "page" : null, "data-key": path }, title,
      path === "" && attention ? h("span", { class: "badge", title: attention === 1 ? "needs attention" : "need attention" }, String(attention)) : null)));
}

function showAbout({ version, uptime, store, journal, point }) {
  document.getElementById("about").textContent =
    [location.host, some(point.sessions, "session"), `up ${lasted(uptime)}`, journal ? `${store}, journal` : store, version].join(" · ");
}

function showRights() {
  const shown = document.getElementById("rights");
  shown.textContent = isOperator() ? "operator" : "read-only";
  shown.title = isOperator() ? "You logged in with the operator's token" : "Log in with the operator's token (admin.operator_token) to act";
}

/** Why there is no news, if the router says it: as many look already as may. */
stream.addEventListener("refused", ({ detail: { error, hint } }) => {
  refused.hidden = false;
  refused.textContent = `✕ The router sends no news: ${error}${hint ? `; ${hint}` : ""}. It is asked again every two seconds.`;
});

stream.addEventListener("tick", ({ detail }) => {
  refused.hidden = true;
  if (page === null) return; // nothing is shown yet; the first page takes it from the stream
  showAbout(detail);
  showPages(holding(detail));
  showState();
  if (!document.hidden) view?.tick?.(detail);
});

/** Live, or for how long it is not. */
function showState() {
  const silent = Date.now() - (stream.heard ?? started);
  const isAway = silent > SILENT_MS;
  const stage = stream.last?.stage; // what it does if it does not serve, like draining
  const [level, text] = isAway ? ["error", `✕ no news for ${lasted(silent / 1000)}`]
    : !stream.heard ? ["", "connecting"] : stage ? ["warning", `▲ ${stage}`] : ["good", "live"];
  if (state.textContent !== text) state.textContent = text;
  state.className = `pill ${level}`;
  document.body.classList.toggle("away", isAway);
}

function changeTheme() {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a browser that keeps nothing */ }
  dispatchEvent(new Event("themechange"));
}

async function leave() {
  await fetch("/logout", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }).catch(() => null);
  location.replace("/login");
}

setInterval(showState, 500);
document.getElementById("leave").addEventListener("click", leave);
document.getElementById("theme").addEventListener("click", changeTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
keys(PAGES, document.getElementById("keys"));
await learnRights();
showRights();
show();
