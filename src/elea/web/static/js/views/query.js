// Query: ask storages, historians and applications; it only reads.

import { post } from "../api.js";
import { el, replace } from "../dom.js";
import { counted, number, stamp } from "../format.js";
import { command, quoted } from "../parts.js";

export function query(root, app, rest) {
  const field = el("input", { id: "selector", class: "wide mono", value: rest, autocomplete: "off", spellcheck: "false",
    placeholder: "robot/*/pose?_time=[now(-1h)..]" });
  const result = el("div");
  const summary = el("p", { class: "muted", role: "status" });
  const foot = el("div");
  let asked = 0;
  async function ask() {
    const selector = field.value.trim();
    if (!selector) return;
    asked += 1;
    const mine = asked;
    replace(summary, "Asking …");
    replace(foot, command(`elea get ${quoted(selector)}`));
    try {
      const { rows, left_out: leftOut } = await post("query", { selector });
      if (mine !== asked) return;
      replace(summary, rows.length ? counted(rows.length, "reply", "replies") + (leftOut ? `, ${number(leftOut)} further ones are not shown` : "")
        : "no reply: nothing answers queries on this key");
      replace(result, rows.map(reply));
    } catch (error) {
      if (mine === asked) { replace(summary, el("span", { class: "bad" }, error.message)); replace(result); }
    }
  }
  const form = el("form", { class: "tools", onsubmit: (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (text === rest) ask();
    else app.go("query", text);
  } }, el("label", { for: "selector" }, "Selector"), field, el("button", { type: "submit" }, "Ask"));
  root.append(el("h1", {}, "Query"), form, summary, result, foot);
  if (rest) ask();
  return { change: (next) => { rest = next; field.value = next; ask(); }, leave: () => { asked += 1; } };
}

function reply(row) {
  return el("section", { class: "pane" },
    el("h2", { class: row.error ? "bad mono" : "mono" }, row.error ? "Error" : row.key),
    el("p", { class: "muted" }, `${row.encoding}, ${number(row.length)} bytes${row.timestamp ? `, ${stamp(row.timestamp)}` : ""}`),
    el("pre", {}, row.lines.join("\n")));
}
