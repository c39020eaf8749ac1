// A tree of keys of which only the rows in view exist. One tab stop; focus stays on the grid.

import { el, setText } from "./dom.js";
import { age, counted, number } from "./format.js";

const MARKS = { p: "publisher", s: "subscriber", q: "queryable", r: "querier", t: "token", l: "recorded" };
const SPARE = 10; // rows beyond each edge

export class Tree {
  /** @param {{window: Function, select: Function, toggle: Function}} told what the view does */
  constructor(told) {
    this.told = told;
    this.rows = new Map(); // by index
    this.values = new Map(); // by key
    this.lines = [];
    this.total = 0;
    this.active = 0;
    this.wanted = ""; // a key whose row is to be active as soon as it is known
    this.space = el("div", { class: "space", role: "rowgroup" });
    this.body = el("div", { class: "body", role: "presentation" }, this.space);
    this.grid = el("div", {
      class: "grid", role: "treegrid", tabindex: 0, "aria-label": "Keys", "aria-rowcount": 1,
      onkeydown: (event) => this.pressed(event), onscroll: () => this.scrolled(),
    }, this.head(), this.body);
    this.timer = setInterval(() => this.draw(), 1000); // ages go on
  }

  head() {
    const names = [["key", ""], ["per s", "number"], ["age", "number less"], ["bytes", "number less"], ["last value", ""]];
    return el("div", { role: "rowgroup" }, el("div", { class: "head", role: "row" },
      names.map(([name, kind]) => el("span", { role: "columnheader", class: kind }, name))));
  }

  leave() {
    clearInterval(this.timer);
  }

  get height() {
    return parseInt(getComputedStyle(this.grid).getPropertyValue("--row"), 10) || 24;
  }

  /** Pixels for rows: the head stays in view. */
  get room() {
    return Math.max(0, this.grid.clientHeight - this.height);
  }

  /** Make the row of a key the active one, when it comes into view. */
  reveal(key) {
    this.wanted = this.rows.get(this.active)?.[2] === key ? "" : key;
  }

  /** What is in view, and some rows more. */
  window() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / this.height) - SPARE);
    const count = Math.ceil(this.room / this.height) + 2 * SPARE;
    return { offset: first, limit: Math.min(count, 200) };
  }

  scrolled() {
    this.draw();
    this.told.window();
  }

  show(part) {
    this.total = part.total;
    this.rows.clear();
    part.v.forEach((row, i) => this.rows.set(part.offset + i, row));
    this.active = Math.max(0, Math.min(this.active, this.total - 1));
    for (const [index, row] of this.rows) if (this.wanted && row[2] === this.wanted) { this.active = index; this.wanted = ""; }
    this.grid.setAttribute("aria-rowcount", String(this.total + 1));
    this.space.style.height = `${this.total * this.height}px`;
    this.draw();
  }

  showValues(rows) {
    const at = performance.now();
    for (const [key, rate, seconds, bytes, text] of rows) {
      this.values.set(key, { rate, since: seconds === null ? null : at - seconds * 1000, bytes, text });
    }
    if (this.values.size > 2000) this.values.clear();
    this.draw();
  }

  keysInView() {
    return [...this.rows.values()].filter((row) => row[4]).map((row) => row[2]);
  }

  draw() {
    const { offset, limit } = this.window();
    let used = 0;
    for (let index = offset; index < Math.min(offset + limit, this.total); index += 1) {
      const row = this.rows.get(index);
      if (!row) continue;
      this.fill(this.lines[used] ?? this.line(), index, row);
      used += 1;
    }
    for (let i = used; i < this.lines.length; i += 1) this.lines[i].node.hidden = true;
    const there = this.rows.has(this.active) && this.active >= offset && this.active < offset + limit;
    if (there) this.grid.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  line() {
    const cells = ["key", "number", "number less", "number less", "mono"].map((kind) => el("span", { role: "gridcell", class: kind }));
    const line = { node: el("div", { class: "line", role: "row" }, cells), cells, index: 0 };
    line.node.addEventListener("click", () => { this.active = line.index; this.choose(); });
    this.lines.push(line);
    this.space.append(line.node);
    return line;
  }

  fill(line, index, [depth, name, key, below, marks, open]) {
    line.index = index;
    const value = this.values.get(key);
    const isBranch = below > 0;
    const sign = isBranch ? (open ? "▾ " : "▸ ") : "  ";
    const node = line.node;
    node.hidden = false;
    node.id = `row-${index}`;
    node.style.top = `${index * this.height}px`;
    node.setAttribute("aria-rowindex", String(index + 2));
    node.setAttribute("aria-level", String(depth + 1));
    node.setAttribute("aria-selected", String(index === this.active));
    if (isBranch) node.setAttribute("aria-expanded", String(open));
    else node.removeAttribute("aria-expanded");
    node.title = [...marks].map((letter) => MARKS[letter]).join(", ");
    const declared = marks.replace("l", "");
    const uses = (declared ? `  ${declared.includes("p") ? "◆" : "◇"}` : "") + (marks.includes("l") ? " ▣" : "");
    const texts = [
      "  ".repeat(depth) + sign + name + uses,
      value ? number(value.rate) : "", value ? age(value.since === null ? null : (performance.now() - value.since) / 1000) : "",
      value ? number(value.bytes) : "", value?.text ?? (isBranch && !open ? counted(below, "key") : ""),
    ];
    texts.forEach((text, i) => setText(line.cells[i], text));
  }

  move(index) {
    this.active = Math.max(0, Math.min(index, this.total - 1));
    const top = this.active * this.height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + this.height > this.grid.scrollTop + this.room) {
      this.grid.scrollTop = top + this.height - this.room;
    }
    this.draw();
    this.told.window();
  }

  choose() {
    const row = this.rows.get(this.active);
    if (!row) return;
    if (row[3] > 0 && !row[4]) this.told.toggle(row[2], !row[5]);
    else this.told.select(row[2]);
    this.draw();
  }

  pressed(event) {
    const page = Math.max(1, Math.floor(this.room / this.height) - 1);
    const row = this.rows.get(this.active);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) this.move(this.active + steps[event.key]);
    else if (event.key === "Home") this.move(0);
    else if (event.key === "End") this.move(this.total - 1);
    else if (event.key === "Enter") this.choose();
    else if (event.key === "ArrowRight" && row?.[3] && !row[5]) this.told.toggle(row[2], true);
    else if (event.key === "ArrowLeft" && row?.[5]) this.told.toggle(row[2], false);
    else if (event.key === "ArrowLeft" && row?.[0]) this.parent(row);
    else return;
    event.preventDefault();
  }

  parent(row) {
    const above = row[2].slice(0, row[2].lastIndexOf("/"));
    for (const [index, other] of this.rows) if (other[2] === above) return this.move(index);
  }
}
