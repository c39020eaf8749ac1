// Log: what this router records, when, what is missing of it, and who reads it.

import { el, replace, setText, svg } from "../dom.js";
import { age, bytes, clock, counted, number } from "../format.js";
import { command, table } from "../parts.js";

const COLUMNS = [["Log", ""], ["State", ""], ["Keys", ""], ["Rows", "number"], ["Bytes", "number"], ["Shards", "number"], ["Gaps", "number"],
  ["Dropped", "number"], ["Duplicates", "number"], ["To disk", "number"], ["Folder", ""]];

export function log(root, app) {
  const summary = el("p", { class: "muted", role: "status" }, "Asking this router …");
  const list = el("section", { class: "values" });
  const times = el("section", { class: "values" });
  const readers = el("section", { class: "values" });
  root.append(el("h1", {}, "Log"), summary, list, times, readers, command("elea log stat DIRECTORY"));
  const wanted = app.live.want("log", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    replace(times, Object.entries(part.density ?? {}).map(([name, told]) => density(name, told)));
    replace(readers, part.consumers?.length ? [el("h2", {}, "Consumers"), table("Consumers", [["Log", ""], ["Consumer", ""], ["Rows behind", "number"], ["Keeps rows until", ""]],
      part.consumers.map(([name, consumer, behind, until]) => [name, consumer, number(behind), until === null ? "–" : moment(until)]))] : null);
    if (!part.logs.length) {
      setText(summary, Object.keys(part.density ?? {}).length ? "Logs that are served in this data space; this router records none."
        : "Nothing is recorded here: plugins/recorder turns it on, or elea record.");
      return replace(list);
    }
    const sum = (field) => part.logs.reduce((total, one) => total + (one[field] ?? 0), 0);
    setText(summary, `${counted(part.logs.length, "log")}, ${counted(sum("rows"), "row")}, ${bytes(sum("octets"))}; ${number(sum("gaps"))} missing, ${number(sum("dropped"))} dropped`
      + (part.skip ? `; ${number(part.skip)} further ones are not shown` : ""));
    replace(list, table("Logs", COLUMNS, part.logs.map(row)));
  });
  return { leave: () => wanted.drop() };
}

/** Rows by time, as bars of equal spans. */
function density(name, { from, to, rows, lost }) {
  const [width, height] = [800, 70];
  const most = Math.max(1, ...rows);
  const step = width / Math.max(1, rows.length);
  const total = rows.reduce((sum, one) => sum + one, 0);
  const seconds = (to - from) / Math.max(1, rows.length);
  return el("section", {}, el("h2", {}, `Rows of ${name} by time`),
    svg("svg", { class: "plot small", viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${number(total)} rows from ${moment(from)} to ${moment(to)}, at most ${number(most / (seconds || 1))} per second` },
    rows.map((count, i) => (count ? svg("rect", { class: "bar", x: step * i, width: Math.max(0.5, step - 1), y: 50 - 48 * count / most, height: Math.max(1, 48 * count / most) }) : null)).filter(Boolean),
    svg("text", { x: 2, y: height - 5 }, moment(from)), svg("text", { x: width - 2, y: height - 5, "text-anchor": "end" }, moment(to)),
    svg("text", { x: width / 2, y: height - 5, "text-anchor": "middle" }, `at most ${number(most / (seconds || 1))} rows/s`)),
    lost ? el("p", { class: "bad" }, `✗ ${counted(lost, "row")} cannot be read: elea log verify names them`) : null);
}

function moment(seconds) {
  const date = new Date(seconds * 1000);
  const day = `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
  return `${day} ${clock(seconds)}`;
}

function row(one) {
  const well = one.state === "Recording" && !one.error;
  const state = `${well ? "●" : "▲"} ${one.state}${one.error ? `: ${one.error}` : ""}`;
  return [one.name, el("span", { class: well ? "ok" : "warn" }, state), one.keys.join(" "), number(one.rows), number(one.octets), number(one.shards),
    marked(one.gaps), marked(one.dropped), number(one.duplicates), age(one.lag_ms === null || one.lag_ms === undefined ? null : one.lag_ms / 1000), one.directory];
}

function marked(count) {
  return count ? el("span", { class: "warn" }, `▲ ${number(count)}`) : number(count);
}
