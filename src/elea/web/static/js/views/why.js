// Why?: what stops a sample on its way, by checks in a fixed order.

import { post } from "../api.js";
import { el, replace } from "../dom.js";
import { command, quoted } from "../parts.js";

const MARKS = { ok: "✓", failed: "✗", unknown: "–" };
const WORDS = { ok: "fine", failed: "wrong", unknown: "not known" };

export function why(root, app, rest) {
  const field = el("input", { id: "why-key", class: "wide mono", value: rest, autocomplete: "off", spellcheck: "false" });
  const result = el("div", { "aria-live": "polite" });
  let asked = 0;
  async function ask() {
    const key = field.value.trim();
    if (!key) return;
    asked += 1;
    const mine = asked;
    replace(result, el("p", { class: "muted" }, "Asking every node on the way …"));
    try {
      const found = await post("why", { key });
      if (mine === asked) replace(result, ...shown(found, key));
    } catch (error) {
      if (mine === asked) replace(result, el("p", { class: "bad" }, error.message));
    }
  }
  const form = el("form", { class: "tools", onsubmit: (event) => {
    event.preventDefault();
    const key = field.value.trim();
    if (key === rest) ask();
    else app.go("why", key);
  } }, el("label", { for: "why-key" }, "Key"), field, el("button", { type: "submit" }, "Find out"));
  root.append(el("h1", {}, "Why does nothing arrive?"), form, result);
  if (rest) ask();
  else field.focus({ preventScroll: true });
  return { change: (next) => { rest = next; field.value = next; ask(); }, leave: () => { asked += 1; } };
}

function shown(found, key) {
  const { state, text } = found.verdict;
  return [
    el("p", { class: `verdict ${state}` }, `${MARKS[state]} ${state === "ok" ? "Nothing is wrong on the way: " : ""}${text}`),
    el("h2", {}, "Checked"),
    el("ul", { class: "plain" }, found.checks.map(([name, one, detail]) => el("li", {},
      el("span", { class: { ok: "ok", failed: "bad", unknown: "warn" }[one] }, `${MARKS[one]} ${WORDS[one]}`), ` · ${name}: ${detail}`))),
    ...found.ways.flatMap(way),
    command(`elea trace ${quoted(key)}`),
  ];
}

function way({ from, steps }) {
  return [el("h2", {}, `From ${from}`), el("ul", { class: "way" }, steps.length
    ? steps.map(([depth, name, takes, reason, note, refused]) => {
      const line = el("li", { class: refused ? "bad" : null },
        `${refused ? "✗" : takes ? "●" : "→"} ${name}${reason ? `, ${reason}` : ""}${note ? `; ${note}` : ""}`);
      line.style.paddingLeft = `${Math.min(depth, 12) * 16}px`;
      return line;
    })
    : el("li", { class: "muted" }, "goes nowhere"))];
}
