// Now: is everything all right?

import { el, replace } from "../dom.js";
import { bytes, clock, counted, number } from "../format.js";
import { command } from "../parts.js";

const MARKS = { joined: "●", left: "○", dropped: "▼", refused: "✗" };

export function now(root, app) {
  const tiles = el("div", { class: "tiles values" });
  const events = el("ul", { class: "plain" });
  const slow = el("ul", { class: "plain" });
  root.append(
    el("h1", {}, "Now"), tiles,
    el("div", { class: "columns" },
      el("section", { class: "pane" }, el("h2", {}, "Changes while this page was open"), events),
      el("section", { class: "pane" }, el("h2", {}, "Slowest receivers"), slow)),
    command("elea top"));
  replace(tiles, el("p", { class: "muted" }, "Asking the nodes …"));
  return { leave: app.onStatus((part) => show(part, tiles, events, slow)) };
}

function show(part, tiles, events, slow) {
  if (part.denied) return replace(tiles, el("p", { class: "bad" }, `Not allowed: ${part.denied}`));
  replace(tiles, dataSpace(part), drops(part), log(part), refusals(part));
  const recent = [...part.events].reverse();
  replace(events, recent.length
    ? recent.map(([at, mark, text]) => el("li", {}, `${clock(at)} ${MARKS[mark] ?? ""} ${text}`))
    : el("li", { class: "muted" }, "nothing so far"));
  replace(slow, part.slow.length
    ? part.slow.map(([name, length]) => el("li", {}, `${name}: ${bytes(length)} queued`))
    : el("li", { class: "muted" }, "no backlog"));
}

function tile(title, state, ...lines) {
  const marks = { ok: "●", warn: "▲", bad: "✗", off: "○" };
  return el("section", { class: "tile" },
    el("h2", {}, el("span", { class: state, "aria-hidden": "true" }, `${marks[state]} `), title),
    lines.filter(Boolean).map((line) => el("p", {}, line)));
}

function dataSpace(part) {
  const rates = part.rates;
  return tile("Data space", "ok",
    `${counted(part.routers, "router")}, ${counted(part.peers, "peer")}, ${counted(part.clients, "client")}`,
    counted(part.keys, "declared key"),
    rates ? `${number(rates[0])} messages/s in, ${number(rates[2])} out` : "measuring rates …",
    rates ? `${bytes(rates[1])}/s in, ${bytes(rates[3])}/s out` : "");
}

function drops(part) {
  if (!part.drops.length) return tile("Dropped", "ok", "nothing since the nodes started");
  return tile("Dropped", "warn", ...part.drops.slice(0, 4).map(([name, count]) => `${number(count)} ${name}`));
}

function log(part) {
  if (!part.logs.length) return tile("Log", "off", "not configured: nothing is recorded here", "plugins/recorder turns it on");
  const failed = part.logs.filter((one) => one.state !== "Recording");
  return tile("Log", failed.length ? "bad" : "ok",
    ...part.logs.slice(0, 3).map((one) => `${one.name}: ${one.state}${one.error ? `, ${one.error}` : ""}`
      + ("octets" in one ? `, ${bytes(one.octets)}, ${number(one.lag_ms)} ms behind` : "")));
}

function refusals(part) {
  if (!part.refused.length) return tile("Refused", "ok", "nothing at this router");
  return tile("Refused", "warn", ...part.refused.slice(0, 4).map(([name, count]) => `${number(count)} ${name}`));
}
