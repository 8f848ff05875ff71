// A list is asked for again some seconds after its answer came, while somebody looks at it.

import { Away } from "./api.js";

export class Refresh {
  /** `work` is asked at once; `failed` is told what went wrong. */
  constructor(work, failed, seconds = 3) {
    this.work = work;
    this.failed = failed;
    this.pause = seconds * 1000;
    this.isOver = false;
    this.number = 0;
    this.seen = () => { if (!document.hidden) this.now(); };
    document.addEventListener("visibilitychange", this.seen);
    this.now();
  }

  /** Ask at once. Only the answer to the last question counts. */
  async now() {
    clearTimeout(this.timer);
    const number = ++this.number;
    const isLast = () => !this.isOver && number === this.number;
    try {
      const show = await this.work();
      if (isLast()) show?.();
    } catch (error) {
      if (isLast() && error.name !== "AbortError") this.failed(error);
      if (!(error.status || error instanceof Away || error.name === "AbortError")) throw error;
    }
    if (isLast() && !document.hidden) this.timer = setTimeout(() => this.now(), this.pause);
  }

  stop() {
    this.isOver = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }
}
