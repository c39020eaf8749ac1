// SQL: a question to the tables of a lake. The door only reads, and has its own bounds.

import { post } from "../api.js";
import { el, replace, svg } from "../dom.js";
import { counted, number } from "../format.js";
import { command, quoted, table } from "../parts.js";

const HISTORY = "elea.sql";
const HISTORY_COUNT = 50;
const SHOWN_COUNT = 200;

export function sql(root, app, rest) {
  const doors = el("select", { id: "door" });
  const text = el("textarea", { id: "sql", class: "mono", rows: 5, spellcheck: "false", autocomplete: "off", placeholder: "select robot, max(temp) from imu group by robot order by 2 desc" });
  const summary = el("p", { class: "muted", role: "status" }, "Asking which tables there are …");
  const tables = el("div", { class: "tables" });
  const result = el("div");
  const foot = el("div");
  const past = el("select", { id: "past", onchange: () => { text.value = past.value; text.focus(); } });
  let asked = 0;
  let known = "";
  let offered = [];

  async function ask() {
    const question = text.value.trim();
    if (!question || !doors.value) return;
    const mine = asked += 1;
    remember(question);
    showPast();
    replace(summary, "Asking …");
    replace(foot, command(`elea get ${quoted(`@sql/${doors.value}?q=${question.replaceAll(/\s+/g, " ")}`)}`));
    try {
      const told = await post("sql", { door: doors.value, text: question });
      if (mine !== asked) return;
      replace(summary, `${counted(told.rows.length, "row")} in ${number(told.seconds)} s`, told.cut ? el("span", { class: "warn" }, `; ▲ ${told.cut}`) : "");
      replace(result, chart(told), grid(told), told.rows.length ? el("p", {}, el("button", { type: "button", onclick: () => download(told) }, "Save as CSV")) : null);
    } catch (error) {
      if (mine === asked) { replace(summary, el("span", { class: "bad" }, error.message)); replace(result); }
    }
  }

  function describe() {
    const door = offered.find(([name]) => name === doors.value);
    replace(tables, (door?.[1] ?? []).map((name) => el("button", { type: "button", title: `what is in ${name}`, onclick: () => insert(name) }, name)));
  }

  function insert(name) {
    if (!text.value.trim()) {
      text.value = `select * from ${name} limit 20`;
      return ask();
    }
    text.setRangeText(name, text.selectionStart, text.selectionEnd, "end");
    text.focus();
  }

  function showPast() {
    const kept = history();
    replace(past, el("option", { value: "" }, kept.length ? "asked before" : "nothing asked before"), kept.map((one) => el("option", { value: one }, one.slice(0, 80))));
  }

  doors.addEventListener("change", describe);
  const form = el("form", { onsubmit: (event) => { event.preventDefault(); ask(); } },
    el("div", { class: "tools" }, el("label", { for: "door" }, "Door"), doors, tables),
    el("label", { for: "sql", class: "quiet" }, "SQL"), text,
    el("div", { class: "tools" }, el("button", { type: "submit", title: "Ctrl Enter" }, "Run"), el("label", { for: "past", class: "quiet" }, "Asked before"), past,
      el("span", { class: "muted" }, "one SELECT, read only; Ctrl Enter runs it")));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
  });
  root.append(el("h1", {}, "SQL"), form, summary, result, foot);
  text.value = rest;
  showPast();
  const leave = app.onStatus((part) => {
    offered = part.doors ?? [];
    if (JSON.stringify(offered) === known) return;
    known = JSON.stringify(offered);
    replace(doors, offered.map(([name]) => el("option", { value: name }, name)));
    replace(summary, offered.length ? "" : "No door for SQL is open here: plugins/sql opens one onto the tables of a pipeline.");
    text.disabled = !offered.length;
    describe();
    if (rest && offered.length) ask();
  });
  return { change: (next) => { if (next) { text.value = next; ask(); } }, leave: () => { asked += 1; leave(); } };
}

function grid(told) {
  if (!told.rows.length) return null;
  const numeric = told.columns.map((_, i) => told.rows.every((row) => row[i] === null || typeof row[i] === "number"));
  const more = told.rows.length > SHOWN_COUNT ? el("p", { class: "muted" }, `the first ${SHOWN_COUNT} of ${number(told.rows.length)} are shown; CSV has all`) : null;
  return el("div", { class: "answer" }, table("Rows", told.columns.map((name, i) => [name, numeric[i] ? "number" : ""]),
    told.rows.slice(0, SHOWN_COUNT).map((row) => row.map((cell) => (cell === null ? "–" : typeof cell === "number" ? String(Number(cell.toPrecision(9))) : String(cell))))), more);
}

/** Bars of the first numeric column by the first that is none; nothing if there are no such columns. */
function chart(told) {
  const rows = told.rows.slice(0, 60);
  const value = told.columns.findIndex((_, i) => rows.length > 1 && rows.every((row) => typeof row[i] === "number"));
  const label = told.columns.findIndex((_, i) => i !== value && rows.every((row) => typeof row[i] === "string"));
  if (value < 0 || label < 0) return null;
  const [width, height, left] = [800, 150, 56];
  const low = Math.min(0, ...rows.map((row) => row[value]));
  const high = Math.max(0, ...rows.map((row) => row[value]));
  const y = (n) => 24 + (high - n) / (high - low || 1) * (height - 54);
  const step = Math.min(90, (width - left - 8) / rows.length);
  const thick = Math.max(1, Math.min(36, step - 4));
  const parts = rows.flatMap((row, i) => [
    svg("rect", { class: "bar", x: left + step * (i + 0.5) - thick / 2, width: thick, y: y(Math.max(0, row[value])), height: Math.max(1, Math.abs(y(row[value]) - y(0))) }),
    step > 26 || i % Math.ceil(26 / step) === 0 ? svg("text", { x: left + step * (i + 0.5), y: height - 8, "text-anchor": "middle" }, row[label].slice(0, Math.max(3, Math.floor(step / 6)))) : null]);
  return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${told.columns[value]} by ${told.columns[label]}, ${counted(rows.length, "bar")}` },
    svg("text", { x: left - 6, y: y(high) + 4, "text-anchor": "end" }, number(high)), svg("text", { x: left - 6, y: y(low) + 4, "text-anchor": "end" }, number(low)),
    svg("text", { class: "name", x: left, y: 14 }, told.columns[value]), ...parts.filter(Boolean));
}

function download(told) {
  const cell = (value) => {
    let text = value === null ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`; // a spreadsheet would run it
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [told.columns, ...told.rows].map((row) => row.map(cell).join(","));
  const link = el("a", { download: "rows.csv" });
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function history() {
  try {
    const kept = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch { return []; }
}

function remember(question) {
  localStorage.setItem(HISTORY, JSON.stringify([question, ...history().filter((one) => one !== question)].slice(0, HISTORY_COUNT)));
}
