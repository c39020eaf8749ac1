// Log: what this router records, and what is missing of it.

import { el, replace, setText } from "../dom.js";
import { age, bytes, counted, number } from "../format.js";
import { command, table } from "../parts.js";

const COLUMNS = [["Log", ""], ["State", ""], ["Keys", ""], ["Rows", "number"], ["Bytes", "number"], ["Shards", "number"], ["Gaps", "number"],
  ["Dropped", "number"], ["Duplicates", "number"], ["To disk", "number"], ["Folder", ""]];

export function log(root, app) {
  const summary = el("p", { class: "muted", role: "status" }, "Asking this router …");
  const list = el("section", { class: "values" });
  root.append(el("h1", {}, "Log"), summary, list, command("elea log stat DIRECTORY"));
  const wanted = app.live.want("log", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    if (!part.logs.length) {
      setText(summary, "Nothing is recorded here: plugins/recorder turns it on, or elea record.");
      return replace(list);
    }
    const sum = (field) => part.logs.reduce((total, one) => total + (one[field] ?? 0), 0);
    setText(summary, `${counted(part.logs.length, "log")}, ${counted(sum("rows"), "row")}, ${bytes(sum("octets"))}; ${number(sum("gaps"))} missing, ${number(sum("dropped"))} dropped`
      + (part.skip ? `; ${number(part.skip)} further ones are not shown` : ""));
    replace(list, table("Logs", COLUMNS, part.logs.map(row)));
  });
  return { leave: () => wanted.drop() };
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
