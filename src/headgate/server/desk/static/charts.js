// Charts in the colours of the page: uPlot for what changes over time, one path for a sparkline.

import { h } from "./ui.js";

const SPARK_SECONDS = 120;

/** What a colour of the page is now: a canvas knows no light-dark(). */
function colour(name, alpha = 1) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
  probe.remove();
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/** The last two minutes of a number. `least` is what the full height is even if all of it is lower. */
export function spark(values, least) {
  const points = values.slice(-SPARK_SECONDS);
  const top = Math.max(...points, least) * 1.05;
  const step = 100 / Math.max(1, points.length - 1);
  const line = points.map((value, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(27 - (value / top) * 24).toFixed(1)}`).join("");
  return h("svg", { class: "spark", viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" },
    line ? [h("path", { class: "area", d: `${line}L100 28L0 28Z` }), h("path", { class: "line", d: line })] : null);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600]; // seconds from one label to the next, as labels have no parts of them
const time = (span) => ({ hour: "2-digit", minute: "2-digit", second: span < 240 ? "2-digit" : undefined });

/** What a line is at a place; a dash where nothing was measured. */
const shownAt = (values, at, format) => (values[at] === null || values[at] === undefined ? "–" : format(values[at]));

/** Lines over time, with a legend that says what they are under the cursor, or now. */
export class TimeChart {
  /** `least` is how high the chart is even if all values are lower. */
  constructor(title, series, format, least) {
    this.series = series;
    this.format = format;
    this.least = least;
    this.data = null;
    this.plot = null;
    this.box = h("div", { class: "chart", "data-keep": title, role: "img", "aria-label": `${title}, over time` });
    this.legend = h("p", { class: "legend", "data-keep": title });
    this.resized = new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height: this.box.clientHeight }));
    this.resized.observe(this.box);
    this.recoloured = () => { this.plot?.destroy(); this.plot = null; this.show(this.data); };
    addEventListener("themechange", this.recoloured);
  }

  /** Times, then the values of each line. */
  show(data) {
    this.data = data;
    if (!data || data[0].length < 2 || !this.box.clientWidth) return;
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.#options(), data, this.box);
    this.#tell();
  }

  end() {
    removeEventListener("themechange", this.recoloured);
    this.resized.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  #options() {
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    return {
      width: this.box.clientWidth,
      height: this.box.clientHeight,
      padding: [10, 22, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "time" }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { y: { range: (plot, low, high) => [0, Math.max(high * 1.08, this.least)] } },
      axes: [
        { ...axis, space: 90, size: 26, incrs: STEPS, values: (plot, all) => all.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB", time(plot.scales.x.max - plot.scales.x.min))) },
        { ...axis, size: 58, values: (plot, all) => all.map(this.format) },
      ],
      series: [{}, ...this.series.map(({ label, hue, fill }) => ({
        label, spanGaps: true, stroke: colour(hue), width: 1.6, fill: fill ? colour(hue, 0.12) : undefined, points: { show: false },
      }))],
      hooks: { setCursor: [() => this.#tell()] },
    };
  }

  #tell() {
    const last = this.data[0].length - 1;
    const at = Math.min(this.plot?.cursor.idx ?? last, last);
    this.legend.replaceChildren(...this.series.map(({ label, hue }, i) =>
      h("span", { class: "key" }, h("i", { class: hue.slice(2) }), `${label} `, h("b", {}, shownAt(this.data[i + 1], at, this.format)))));
  }
}
