// Numbers, sizes and times as people read them.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export const count = (n) => (Math.abs(n) >= 1_000_000 ? compact.format(n) : plain.format(n ?? 0));
/** All digits, where two numbers are compared. */
export const exact = (n) => plain.format(n);
export const some = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
/** One matches, many match. */
export const verb = (n, one, many) => (n === 1 ? one : many);
export const percent = (part) => `${Math.round(part * 100)} %`;

export function rate(n) {
  if (!n) return "0";
  if (Math.abs(n) >= 100_000) return compact.format(n);
  return Math.abs(n) >= 10 ? plain.format(n) : n.toFixed(1);
}

export const trend = (n) => (Math.abs(n) < 0.05 ? "±0/s" : `${n > 0 ? "+" : "−"}${rate(Math.abs(n))}/s`);

export function bytes(n) {
  let unit = 0;
  let left = n ?? 0;
  while (left >= 1024 && unit < UNITS.length - 1) { left /= 1024; unit += 1; }
  return `${unit && left < 100 ? left.toFixed(1) : Math.round(left)} ${UNITS[unit]}`;
}

/** A duration, given in seconds. */
export function lasted(s) {
  if (s < 0.00005) return "0 ms";
  if (s < 0.01) return `${(s * 1000).toFixed(1)} ms`;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} d`;
}

const DAY = 86_400_000;

/** A moment, given in seconds since 1970; with its day if that is not today. */
export function clock(at, fine = false) {
  const when = new Date(at * 1000);
  const time = when.toLocaleTimeString("en-GB") + (fine ? `.${String(when.getMilliseconds()).padStart(3, "0")}` : "");
  return Math.abs(Date.now() - when) < DAY / 2 ? time : `${when.toLocaleDateString("en-CA")} ${time}`;
}

export const since = (at) => Math.max(0, Date.now() / 1000 - at);
export const ago = (at) => `${lasted(since(at))} ago`;
