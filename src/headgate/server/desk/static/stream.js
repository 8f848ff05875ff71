// News of every second. One stream is enough for all tabs: whoever has the lock listens to the
// router and tells the others. A tab that nobody looks at for a minute lets go of it.

import { address, Refused, whyRefused } from "./api.js";

const NAME = "headgate-live";
const HIDDEN_MS = 60_000;
const AGAIN_MS = 2_000;
const EVENTS = ["tick"];
const LIVE = address("live", {});

export class Stream extends EventTarget {
  constructor() {
    super();
    this.heard = null; // when there was news, by the clock of this machine
    this.last = null;
    this.others = new BroadcastChannel(NAME);
    this.others.addEventListener("message", ({ data }) => this.#told(data));
    document.addEventListener("visibilitychange", () => this.#looked());
    addEventListener("pageshow", () => this.#looked());
    this.others.postMessage({ hello: true });
    this.#looked();
  }

  #looked() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.#leave(), HIDDEN_MS);
    else this.#join();
  }

  /** Wait for one's turn to be the one who listens. */
  #join() {
    if (this.waiting) return;
    const waiting = new AbortController();
    this.waiting = waiting;
    navigator.locks.request(NAME, { signal: waiting.signal }, () => this.#listen(waiting.signal)).catch((error) => {
      if (error.name !== "AbortError") throw error;
    });
  }

  #leave() {
    this.waiting?.abort();
    this.waiting = null;
    this.source?.close();
    this.source = null;
    this.release?.();
  }

  /** Listen to the router until this tab leaves. */
  async #listen(signal) {
    this.#open();
    await new Promise((done) => {
      this.release = done;
      if (signal.aborted) done();
    });
  }

  #open() {
    this.source = new EventSource(LIVE);
    for (const name of EVENTS) {
      this.source.addEventListener(name, ({ data }) => {
        const news = { name, data: JSON.parse(data) };
        this.others.postMessage(news);
        this.#told(news);
      });
    }
    this.source.addEventListener("error", () => this.#broken(this.source));
  }

  /** It tries again by itself unless the router refused it; then all tabs are told why. */
  async #broken(source) {
    if (source?.readyState !== EventSource.CLOSED) return;
    const why = await whyRefused(LIVE);
    if (why instanceof Refused) {
      const news = { name: "refused", data: { error: why.message, hint: why.hint } };
      this.others.postMessage(news);
      this.#told(news);
    }
    setTimeout(() => { if (this.source === source) this.#open(); }, AGAIN_MS);
  }

  #told({ hello, name, data }) {
    if (hello) {
      if (this.source && this.last) this.others.postMessage({ name: "tick", data: this.last });
      return;
    }
    if (name === "tick") {
      this.heard = Date.now();
      this.last = data;
    }
    this.dispatchEvent(new CustomEvent(name, { detail: data }));
  }
}
