// Plot: numbers of one key over time, from historians and then live.

import { post } from "../api.js";
import { el, replace, setText, svg } from "../dom.js";
import { clock, counted, number } from "../format.js";
import { command, quoted, table } from "../parts.js";

const SPANS = [[60, "1 min"], [600, "10 min"], [3600, "1 h"], [86400, "24 h"]];
const FIELDS_MAX = 4;
const POINTS_MAX = 20000; // of one field; the oldest go
const HEIGHT = 170;
const EDGE = { left: 56, right: 8, top: 22, bottom: 20 };
const SILENT = 5; // of the usual distance, as the server has it
const ROWS_COUNT = 50;

export function plot(root, app, rest) {
  const view = new Plot(app);
  root.append(el("h1", {}, "Plot"), view.form, view.chips, view.note, view.charts, view.rows, view.foot);
  view.start(rest);
  return view;
}

/** The address: a key, and its fields behind `?f=`. No key holds a question mark. */
function parsed(rest) {
  const [key, query] = rest.split("?", 2);
  const fields = new URLSearchParams(query ?? "").getAll("f").slice(0, FIELDS_MAX);
  return { key, fields };
}

function address(key, fields) {
  return key + (fields.length ? `?${fields.map((one) => `f=${encodeURIComponent(one)}`).join("&")}` : "");
}

class Plot {
  constructor(app) {
    this.app = app;
    this.field = el("input", { id: "plot-key", class: "wide mono", autocomplete: "off", spellcheck: "false", placeholder: "fleet/r1/imu" });
    this.span = el("select", { id: "span", onchange: () => this.follow() }, SPANS.map(([seconds, text]) => el("option", { value: seconds }, text)));
    this.span.value = "600";
    this.followButton = el("button", { type: "button", onclick: () => this.follow() }, "Follow");
    this.form = el("form", { class: "tools", onsubmit: (event) => {
      event.preventDefault();
      this.app.go("plot", this.field.value.trim());
    } }, el("label", { for: "plot-key" }, "Key"), this.field, el("button", { type: "submit" }, "Plot"),
    el("label", { for: "span" }, "Span"), this.span, this.followButton);
    this.chips = el("fieldset", { class: "chips", "aria-label": "Fields" });
    this.note = el("p", { class: "muted", role: "status" });
    this.charts = el("div", { class: "charts" });
    this.table = el("div");
    this.rows = el("details", { ontoggle: () => this.draw() }, el("summary", {}, "Last values as a table"), this.table);
    this.foot = el("div");
    this.asked = 0;
    this.keys = (event) => { if (event.key === "." && !event.target.closest?.("input, textarea, select")) this.follow(); };
  }

  start(rest) {
    addEventListener("keydown", this.keys);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.charts);
    this.timer = setInterval(() => { if (this.following && !this.app.live.paused && !document.hidden) this.draw(); }, 500);
    this.change(rest);
  }

  leave() {
    this.asked += 1;
    removeEventListener("keydown", this.keys);
    this.sizes.disconnect();
    clearInterval(this.timer);
    this.wanted?.drop();
  }

  change(rest) {
    const { key, fields } = parsed(rest);
    const same = key === this.key;
    this.key = key;
    this.fields = fields;
    this.field.value = key;
    if (!same) this.known = [];
    const range = this.app.at === null ? "[now(-10m)..]" : `[${iso(this.app.at - 300)}..${iso(this.app.at + 300)}]`;
    replace(this.foot, key ? command(`elea get ${quoted(`${key}?_time=${range}`)}`) : null);
    if (key) return this.follow();
    setText(this.note, "Name a key, or select one in Keys and choose Plot.");
    this.charts.replaceChildren();
  }

  /** From the log to now, and then each new sample; or about the time that is shown. */
  follow() {
    if (!this.key) return;
    const { at } = this.app;
    if (at !== null) {
      const half = Number(this.span.value) / 2;
      return this.zoom(at - half, at + half);
    }
    this.following = true;
    const span = Number(this.span.value);
    this.range = { span };
    this.load({});
  }

  zoom(since, until) {
    this.following = false;
    this.range = { since, until };
    this.load({ since, until });
  }

  async load({ since, until }) {
    this.asked += 1;
    const mine = this.asked;
    this.followButton.setAttribute("aria-pressed", String(this.following));
    this.waiting = []; // what comes while the past is read
    this.wanted?.drop();
    this.wanted = this.following ? this.app.live.want("series", { keys: [this.key], fields: this.fields }, (part) => this.take(part)) : null;
    this.liveNote = "";
    const now = this.app.live.now();
    const body = { key: this.key, fields: this.fields, columns: Math.max(100, Math.round(this.charts.clientWidth)) };
    Object.assign(body, this.following ? { since: now - this.range.span, until: now + 1 } : { since, until });
    setText(this.note, "Asking for the past …");
    let told = null;
    try {
      told = await post("series", body);
    } catch (error) {
      if (mine !== this.asked) return;
      this.failed = error.message;
    }
    if (mine !== this.asked) return;
    this.data = new Map();
    this.lost = [];
    this.seam = null;
    this.step = told?.step ?? 0;
    this.thin = told?.thin ?? 1;
    if (told) {
      this.failed = told.error;
      this.pastRows = told.rows;
      this.cut = told.cut;
      this.add(told);
      this.seam = told.rows ? Math.max(...[...this.data.values()].map((points) => points.at(-1)?.[0] ?? 0)) : null;
      if (!this.following) this.range = { since: told.since, until: told.until };
    }
    const waiting = this.waiting;
    this.waiting = null;
    for (const part of waiting) this.take(part);
    this.offer(told?.fields ?? []);
    this.say();
    this.draw();
  }

  take(part) {
    this.liveNote = part.note ?? "";
    if (this.waiting) return this.waiting.push(part);
    if (part.series) {
      if (!this.step) this.step = part.step;
      this.offer(part.fields);
      this.add(part);
      this.draw();
    }
    this.say();
  }

  /** Points behind those that are there: what came twice is left out. */
  add(part) {
    for (const [name, [times, values]] of Object.entries(part.series)) {
      if (!this.data.has(name) && this.data.size < FIELDS_MAX) this.data.set(name, []);
      const points = this.data.get(name);
      if (!points) continue;
      const before = points.at(-1)?.[0] ?? -Infinity;
      let last = before;
      times.forEach((ms, i) => {
        const at = part.since + ms / 1000;
        if (at <= before) return;
        const silent = this.step && points.length && at - last > SILENT * this.step && at - last > this.width() && points.at(-1)[1] !== null;
        if (silent && values[i] !== null) points.push([at, null]);
        points.push([at, values[i]]);
        last = at;
      });
      if (points.length > POINTS_MAX) points.splice(0, points.length - POINTS_MAX);
    }
    const told = this.lost.at(-1)?.[1] ?? -Infinity;
    for (const [a, b, count] of part.lost) if (part.since + b / 1000 > told) this.lost.push([part.since + a / 1000, part.since + b / 1000, count]);
    if (this.lost.length > 500) this.lost.splice(0, this.lost.length - 500);
  }

  /** Seconds of one pixel. */
  width() {
    const { since, until } = this.window();
    return (until - since) / Math.max(100, this.charts.clientWidth);
  }

  window() {
    if (!this.following) return this.range;
    const now = this.app.live.now();
    return { since: now - this.range.span, until: now };
  }

  offer(fields) {
    const known = [...new Set([...this.known, ...fields, ...this.fields])].slice(0, 64);
    const text = JSON.stringify([known, [...(this.data?.keys() ?? [])]]);
    if (text === this.offered) return;
    this.offered = text;
    this.known = known;
    const focused = this.chips.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.chips.replaceChildren(...known.map((name) => el("button", { type: "button", "aria-pressed": String(this.data?.has(name) ?? false),
      onclick: () => this.pick(name) }, name)));
    if (focused !== null) [...this.chips.children].find((one) => one.textContent === focused)?.focus();
  }

  pick(name) {
    const shown = [...(this.data?.keys() ?? [])];
    const next = shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name].slice(-FIELDS_MAX);
    this.app.go("plot", address(this.key, next));
  }

  say() {
    const lost = this.lost?.reduce((sum, one) => sum + one[2], 0) ?? 0;
    const parts = [
      this.failed ? `no past: ${this.failed}` : this.pastRows ? `${counted(this.pastRows, "version")} from the log${this.cut ? ", the newest of more" : ""}`
        : "no past: no historian answers for this key",
      lost ? `${number(lost)} lost` : "", this.thin > 1 ? `1 of ${this.thin} drawn` : "",
      this.following ? "then live" : this.app.at === null ? "zoomed; . follows again" : `about ${clock(this.app.at)}; . goes live`, this.liveNote,
    ];
    if (!this.known.length) parts.push("no number in its payloads so far");
    setText(this.note, parts.filter(Boolean).join(" · "));
  }

  draw() {
    if (!this.data) return;
    const size = Math.max(200, this.charts.clientWidth);
    const { since, until } = this.drag ? this.held : this.window();
    const names = [...this.data.keys()];
    while (this.charts.children.length > names.length) this.charts.lastChild.remove();
    names.forEach((name, i) => {
      const chart = this.charts.children[i] ?? this.charts.appendChild(this.chart());
      chart.setAttribute("viewBox", `0 0 ${size} ${HEIGHT}`);
      this.fill(chart, name, this.data.get(name), since, until, size);
    });
    if (this.rows.open) replace(this.table, this.listed(names));
  }

  chart() {
    const chart = svg("svg", { class: "plot", role: "img" });
    const at = (event) => event.clientX - chart.getBoundingClientRect().left;
    let from = null;
    chart.addEventListener("pointerdown", (event) => {
      from = at(event);
      this.held = this.window(); // it does not move below the pointer
      chart.setPointerCapture(event.pointerId);
    });
    chart.addEventListener("pointermove", (event) => { if (from !== null) { this.drag = [from, at(event)]; this.draw(); } });
    chart.addEventListener("pointerup", (event) => {
      const [a, b] = [from, at(event)].sort((x, y) => x - y);
      from = this.drag = null;
      if (b - a < 8) return;
      const { since, until } = this.held;
      const plain = Math.max(1, chart.clientWidth - EDGE.left - EDGE.right);
      const time = (x) => since + (until - since) * Math.min(1, Math.max(0, (x - EDGE.left) / plain));
      if (time(b) - time(a) > 0.01) this.zoom(time(a), time(b));
    });
    chart.addEventListener("pointercancel", () => { from = this.drag = null; });
    chart.addEventListener("dblclick", () => this.follow());
    return chart;
  }

  fill(chart, name, points, since, until, size) {
    const seen = points.filter(([at, value]) => value !== null && at >= since && at <= until).map((one) => one[1]);
    const low = seen.reduce((a, b) => Math.min(a, b), Infinity);
    const high = seen.reduce((a, b) => Math.max(a, b), -Infinity);
    const [bottom, top, step] = axis(low, high);
    const x = (at) => EDGE.left + (size - EDGE.left - EDGE.right) * (at - since) / (until - since);
    const y = (value) => HEIGHT - EDGE.bottom - (HEIGHT - EDGE.top - EDGE.bottom) * (value - bottom) / (top - bottom);
    const last = points.findLast((one) => one[1] !== null);
    const parts = [];
    for (let value = bottom; value <= top + step / 2; value += step) {
      parts.push(svg("line", { class: "tick", x1: EDGE.left, x2: size - EDGE.right, y1: y(value), y2: y(value) }),
        svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, label(value, step)));
    }
    const count = Math.max(2, Math.min(8, Math.floor(size / 140)));
    for (let i = 0; i <= count; i += 1) {
      const at = since + (until - since) * i / count;
      parts.push(svg("text", { x: x(at), y: HEIGHT - 6, "text-anchor": i === 0 ? "start" : i === count ? "end" : "middle" }, clock(at)));
    }
    let texted = -Infinity;
    for (const [a, b, lost] of this.lost) {
      if (b < since || a > until) continue;
      const [left, right] = [Math.max(EDGE.left, x(a)), Math.min(size - EDGE.right, x(b))];
      parts.push(svg("rect", { class: "lost", x: left, width: Math.max(2, right - left), y: EDGE.top, height: HEIGHT - EDGE.top - EDGE.bottom }));
      if (left - texted < 60) continue;
      texted = left;
      parts.push(svg("text", { class: "bad", x: left, y: EDGE.top + 12, "text-anchor": left > size - 80 ? "end" : "start" }, `${number(lost)} lost`));
    }
    if (this.following && this.seam && this.seam > since) {
      parts.push(svg("line", { class: "seam", x1: x(this.seam), x2: x(this.seam), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    }
    if (this.app.at !== null && this.app.at > since && this.app.at < until) {
      parts.push(svg("line", { class: "moment", x1: x(this.app.at), x2: x(this.app.at), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    }
    parts.push(...curves(points, since, until, x, y));
    parts.push(svg("text", { class: "name", x: EDGE.left, y: 15 }, `${name}  ${last ? number(last[1]) : "–"}`));
    if (this.drag) {
      const [a, b] = [...this.drag].sort((one, other) => one - other);
      parts.push(svg("rect", { class: "drag", x: a, width: b - a, y: EDGE.top, height: HEIGHT - EDGE.top - EDGE.bottom }));
    }
    chart.replaceChildren(...parts);
    chart.setAttribute("aria-label", seen.length ? `${name} from ${clock(since)} to ${clock(until)}: lowest ${number(low)}, highest ${number(high)}, last ${number(last[1])}`
      : `${name}: no value from ${clock(since)} to ${clock(until)}`);
  }

  listed(names) {
    const times = new Map();
    names.forEach((name, i) => {
      for (const [at, value] of this.data.get(name).slice(-2 * ROWS_COUNT)) {
        if (value === null) continue;
        if (!times.has(at)) times.set(at, names.map(() => null));
        times.get(at)[i] = value;
      }
    });
    const rows = [...times].sort((a, b) => b[0] - a[0]).slice(0, ROWS_COUNT);
    return table("Last values", [["Time", ""], ...names.map((name) => [name, "number"])],
      rows.map(([at, values]) => [`${clock(at)}.${String(Math.floor((at % 1) * 1000)).padStart(3, "0")}`, ...values.map(number)]));
  }
}

function iso(seconds) {
  return new Date(seconds * 1000).toISOString();
}

/** Lines between breaks; a point that stands alone is a dot. */
function curves(points, since, until, x, y) {
  const parts = [];
  const dots = [];
  let line = [];
  const end = () => {
    if (line.length > 1) parts.push(svg("polyline", { class: "curve", points: line.join(" ") }));
    else if (line.length) dots.push(line[0].split(","));
    line = [];
  };
  points.forEach(([at, value], i) => {
    const out = at < since || at > until;
    if (value === null || out) return end();
    line.push(`${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    if (i === points.length - 1) end();
  });
  end();
  return [...parts, ...dots.map(([cx, cy]) => svg("circle", { class: "dots", cx, cy, r: 2 }))];
}

/** Where an axis begins and ends, and the distance of its ticks: 1, 2 or 5 times a power of ten. */
function axis(low, high) {
  if (low > high) return [0, 1, 1];
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / 3));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => span / one <= 4);
  return [Math.floor(low / step) * step, Math.max(Math.ceil(high / step), Math.floor(low / step) + 1) * step, step];
}

function label(value, step) {
  const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step))));
  return Math.abs(value) >= 1e5 ? number(value) : value.toFixed(digits);
}
