// Which shared queues are worth showing first.

import { get } from "./api.js";

/** `DOMAIN/NAME` of some queues: those with most that is undelivered, or else any that are open.
 * `domains` is what the API says of all domains. */
export async function openQueues(domains, most) {
  const behind = [...new Set(domains.apps.map(({ domain, name }) => `${domain}/${name}`))];
  const shared = domains.rows.filter(({ mode, opened }) => mode !== "exclusive" && opened);
  if (!behind.length && shared.length) {
    const { rows } = await get(`domains/${encodeURIComponent(shared[0].domain)}`, { limit: most });
    return rows.map(({ domain, name }) => `${domain}/${name}`);
  }
  return behind.slice(0, most);
}

/** Where the API has a shared queue, by `DOMAIN/NAME`. */
export function queuePath(path) {
  const [domain, ...name] = path.split("/");
  return `domains/${encodeURIComponent(domain)}/queues/${encodeURIComponent(name.join("/"))}`;
}
