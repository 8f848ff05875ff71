// Questions to the router that shows this page.

/** The router answered with an error. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error ?? `the router answered ${status}`);
    this.status = status;
    this.code = body?.code ?? null;
    this.hint = body?.hint ?? null;
  }
}

/** Nobody answered. */
export class Away extends Error {
  constructor() { super("The router does not answer."); }
}

export const get = (path, parameters = {}, options = {}) => asked(address(path, parameters), options);

export function post(path, body, options = {}) {
  return asked(address(path, {}), {
    ...options, method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" },
  });
}

/** Where something is asked for; what is empty is left out. */
export function address(path, parameters) {
  const said = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const query = new URLSearchParams(said.map(([name, value]) => [name, String(value)]));
  return `/api/v1/${path}${said.length ? `?${query}` : ""}`;
}

/** Why a stream was refused, which an EventSource does not tell: the same is asked for in a plain way. */
export async function whyRefused(url) {
  const stop = new AbortController();
  try {
    const response = await fetch(url, { signal: stop.signal });
    if (response.status === 401) logIn();
    return response.ok ? null : new Refused(response.status, await response.json().catch(() => null));
  } catch {
    return new Away();
  } finally {
    stop.abort();
  }
}

export function logIn() { location.replace(`/login?expired${location.hash}`); }

async function asked(url, options) {
  let response;
  try {
    response = await fetch(url, { ...options, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away();
  }
  if (response.status === 401) logIn();
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}
