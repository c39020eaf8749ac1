// Now: is everything all right?

import { el, replace } from "../dom.js";
import { age, bytes, clock, counted, number } from "../format.js";
import { command, table } from "../parts.js";
import { href } from "../route.js";

const MARKS = { joined: "●", left: "○", dropped: "▼", refused: "✗", other: "·" };
const CLASSES = { dropped: "warn", refused: "bad" };
const RANK = ["ok", "off", "warn", "bad"];

export function now(root, app) {
  const tiles = el("div", { class: "tiles values" });
  const events = el("ul", { class: "plain feed" });
  const loud = el("div");
  const slow = el("ul", { class: "plain" });
  root.append(
    el("h1", {}, "Now"), tiles,
    el("div", { class: "columns" },
      el("section", { class: "pane" }, el("h2", {}, "What changed"), events),
      el("div", {},
        el("section", { class: "pane values" }, el("h2", {}, "Loudest keys at this router"), loud),
        el("section", { class: "pane" }, el("h2", {}, "Slowest receivers"), slow))),
    command("elea top"));
  replace(tiles, el("p", { class: "muted" }, "Asking the nodes …"));
  return { leave: app.onStatus((part) => show(part, tiles, events, loud, slow)) };
}

function show(part, tiles, events, loud, slow) {
  if (part.denied) return replace(tiles, el("p", { class: "bad" }, `Not allowed: ${part.denied}`));
  replace(tiles, dataSpace(part), log(part), pipeline(part), alerts(part));
  const recent = [...part.events].reverse();
  replace(events, recent.length
    ? recent.map(([at, mark, text]) => el("li", {}, el("span", { class: "muted mono" }, clock(at)),
      el("span", { class: CLASSES[mark], "aria-hidden": "true" }, ` ${MARKS[mark] ?? "·"} `), text))
    : el("li", { class: "muted" }, "nothing so far"));
  replace(loud, loudest(part));
  replace(slow, part.slow.length
    ? part.slow.map(([name, length]) => el("li", {}, `${name}: ${bytes(length)} queued`))
    : el("li", { class: "muted" }, "no backlog"));
}

function loudest(part) {
  if (!part.traffic) return el("p", { class: "muted" }, "this node does not count by key");
  if (!part.measured) return el("p", { class: "muted" }, "counting for 2 s …");
  const moving = part.traffic.filter((row) => row[2] > 0).slice(0, 8);
  if (!moving.length) return el("p", { class: "muted" }, "no sample arrives here");
  return table("Loudest keys", [["Key", "key"], ["Per s", "number"], ["B/s", "number less"], ["Share", "number"]],
    moving.map(([key, count, rate, octets, share]) => [
      el("a", { href: href("keys", key.includes("*") ? "" : key), class: "mono", title: count > 1 ? `${number(count)} keys` : null }, key), number(rate), number(octets),
      el("span", { class: "share" }, meter(share), `${number(Math.round(share))} %`)]));
}

function meter(percent) {
  return el("meter", { min: 0, max: 100, value: percent, "aria-hidden": "true" });
}

function tile(title, view, ...lines) {
  const marks = { ok: "●", warn: "▲", bad: "✗", off: "○" };
  const words = { ok: "fine", warn: "look at it", bad: "wrong", off: "not set up" };
  const told = lines.filter(Boolean);
  const state = told.reduce((worst, [one]) => (RANK.indexOf(one) > RANK.indexOf(worst) ? one : worst), "ok");
  return el("section", { class: `tile ${state}` },
    el("h2", {}, el("span", { class: state, "aria-hidden": "true" }, `${marks[state]} `), el("a", { href: href(view) }, title),
      el("span", { class: "quiet" }, `: ${words[state]}`)),
    told.map(([one, text], i) => el("p", { class: [i ? "" : "first", one === "off" ? "muted" : one === "ok" ? "" : one].filter(Boolean).join(" ") }, text)));
}

function dataSpace(part) {
  const rates = part.rates;
  const dropped = part.drops.reduce((sum, [, count]) => sum + count, 0);
  const refused = part.refused.reduce((sum, [, count]) => sum + count, 0);
  return tile("Data space", "network",
    ["ok", rates ? `${number(rates[0])} in/s · ${number(rates[2])} out/s` : part.counted ? "measuring rates …" : "no node tells its rates"],
    ["ok", `${counted(part.routers, "router")}, ${counted(part.peers, "peer")}, ${counted(part.clients, "client")}, ${counted(part.keys, "key")}`],
    dropped ? ["warn", `▲ ${number(dropped)} dropped: ${part.drops[0][0]}`] : ["ok", "nothing dropped"],
    refused ? ["warn", `▲ ${number(refused)} refused: ${part.refused[0][0]}`] : ["ok", "nothing refused"]);
}

function log(part) {
  if (!part.logs.length) return tile("Log", "log", ["off", "nothing is recorded here"], ["off", "plugins/recorder turns it on"]);
  return tile("Log", "log", ...part.logs.slice(0, 2).flatMap((one) => {
    const well = one.state === "Recording" && !one.error;
    const missing = (one.gaps ?? 0) + (one.dropped ?? 0);
    return [[well ? "ok" : "bad", `${one.name}: ${one.state.toLowerCase()}${one.error ? `, ${one.error}` : ""}`],
      "octets" in one ? ["ok", `${number(one.rows)} rows, ${bytes(one.octets)}, ${age((one.lag_ms ?? 0) / 1000)} to disk`] : null,
      missing ? ["warn", `▲ ${number(one.gaps)} missing, ${number(one.dropped)} dropped`] : ["ok", "nothing missing"]];
  }));
}

function pipeline(part) {
  if (!part.pipelines.length) return tile("Pipeline", "pipelines", ["off", "none tells of itself"], ["off", "elea up, or elea pipeline run"]);
  return tile("Pipeline", "pipelines", ...part.pipelines.slice(0, 2).flatMap(([name, state, lag, trend, tables, failing]) => {
    const behind = lag === null ? "lag not known" : `${age(lag)} behind${trend ? `, ${trend}` : ""}`;
    return [[state === "running" ? "ok" : state === "failed" || state === "dead" ? "bad" : "warn", `${name}: ${state}`],
      [trend === "growing" ? "warn" : "ok", behind],
      [failing.length ? "bad" : "ok", `${counted(tables, "table")}, ${failing.length ? `✗ failing: ${failing.join(", ")}` : "none failing"}`]];
  }));
}

function alerts(part) {
  if (!part.alerts) return tile("Alerts", "alerts", ["off", "not allowed to see them"]);
  const { raised, alerts: rows } = part.alerts;
  const open = rows.filter((row) => row[4] === null).slice(0, 3);
  if (!rows.length) return tile("Alerts", "alerts", ["ok", "none since yesterday"], ["off", "published on alerts/**"]);
  return tile("Alerts", "alerts",
    raised ? ["warn", `▲ ${counted(raised, "alert")} raised`] : ["ok", "none raised"],
    ...open.map((row) => ["warn", `${name(row[1])} ${row[2]}, since ${row[3] ? clock(row[3]) : "–"}`]),
    raised ? null : ["ok", `${counted(rows.length, "alert")} since yesterday`]);
}

function name(key) {
  return key.slice(key.lastIndexOf("/") + 1);
}
