// Pipelines: which table is made of which, how many rows each has, and how far behind it is.

import { el, replace, setText, svg } from "../dom.js";
import { age, clock, counted, number } from "../format.js";
import { command, table } from "../parts.js";
import { href } from "../route.js";

const LEVELS = [["bronze", "Bronze: as it came"], ["silver", "Silver: columns"], ["gold", "Gold: made of others"], ["bad", "Kept apart: could not be decoded, or came late"]];
const STATES = { running: ["●", "ok"], done: ["●", "ok"], waiting: ["○", "muted"], failing: ["▲", "warn"], failed: ["✗", "bad"], unknown: ["–", "muted"] };
const WELL = ["running", "starting"];

export function pipelines(root, app, rest) {
  const summary = el("p", { class: "muted", role: "status" }, "Asking for pipelines …");
  const shown = el("div", { class: "values" });
  const foot = el("div");
  root.append(el("h1", {}, "Pipelines"), summary, shown, foot);
  let selected = rest;
  let last = null;
  const draw = () => {
    if (!last) return;
    const told = last.pipelines;
    setText(summary, told.length ? told.map(sentence).join("; ")
      : "No pipeline tells of itself: elea up runs one beside a router, elea pipeline run tells if its file has `connect`.");
    replace(shown, told.map((one) => pipeline(one, selected)));
    replace(foot, command(told.length ? `elea pipeline status ${told[0].storage ? "" : "pipeline.yaml"}`.trim() : "elea pipeline init"));
  };
  const wanted = app.live.want("pipelines", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    last = part;
    draw();
  });
  return { change: (next) => { selected = next; draw(); }, leave: () => wanted.drop() };
}

function sentence(one) {
  const lags = one.tables.filter((each) => each.lag_s !== null);
  const worst = lags.reduce((most, each) => (most === null || each.lag_s > most.lag_s ? each : most), null);
  const failing = one.tables.filter((each) => each.state === "failing" || each.state === "failed");
  return `${one.name} is ${one.state}`
    + (worst ? `, ${age(worst.lag_s)} behind (${worst.name}${worst.trend ? `, ${worst.trend}` : ""})` : "")
    + (failing.length ? `, ${failing.map((each) => each.name).join(", ")} failing` : "");
}

function pipeline(one, selected) {
  const chosen = one.tables.find((each) => `${one.name}/${each.name}` === selected);
  const [mark, kind] = WELL.includes(one.state) ? ["●", "ok"] : one.state === "stopped" || one.state === "stopping" ? ["○", "warn"] : ["✗", "bad"];
  return el("section", { class: "pipeline" },
    el("h2", {}, el("span", { class: kind, "aria-hidden": "true" }, `${mark} `), `${one.name}: ${one.state}`,
      one.host ? el("span", { class: "muted" }, `  on ${one.host}, since ${one.since ? clock(one.since) : "–"}`) : null),
    one.lag_error ? el("p", { class: "warn" }, `▲ lag is not known: ${one.lag_error}`) : null,
    el("div", { class: "lineage" }, LEVELS.map(([level, title]) => {
      const tables = one.tables.filter((each) => (each.level || "gold") === level);
      if (!tables.length) return null;
      return el("section", { class: "level", "aria-label": title }, el("h3", {}, title), tables.map((each) => box(one, each, each === chosen)));
    })),
    chosen ? detail(chosen) : null,
    one.events.length ? el("details", {}, el("summary", {}, `${counted(one.events.length, "event")}`),
      el("ul", { class: "plain" }, one.events.map((text) => el("li", {}, text)))) : null);
}

function box(one, each, chosen) {
  const [mark, kind] = STATES[each.state] ?? STATES.unknown;
  const name = `${one.name}/${each.name}`;
  return el("a", { class: `box ${kind}`, href: href("pipelines", chosen ? "" : name), "aria-current": chosen ? "true" : null },
    el("span", { class: "name" }, el("span", { class: kind, "aria-hidden": "true" }, `${mark} `), each.name, el("span", { class: "quiet" }, ` ${each.state}`)),
    el("span", { class: "rows" }, each.rows === null ? "–" : `${number(each.rows)} rows`),
    el("span", { class: "muted whole" }, [each.lag_s === null ? null : `${age(each.lag_s)} behind${each.trend === "growing" ? " ▲" : ""}`,
      each.rate >= 0.1 ? `${number(each.rate)}/s` : null].filter(Boolean).join(" · ") || each.kind),
    each.from.length ? el("span", { class: "muted from" }, `← ${each.from.join(", ")}`) : null,
    each.publish ? el("span", { class: "muted from" }, `→ ${each.publish}`) : null);
}

function detail(each) {
  const facts = [["Kind", each.kind], ["Keys", each.keys.join("  ") || "–"], ["Made of", each.from.join(", ") || "the log"], ["Published on", each.publish || "not published"],
    ["Rows", number(each.rows)], ["Added in this run", number(each.added)], ["Per second", number(each.rate)],
    ["Behind", each.lag_s === null ? "not known, or not made of the log" : `${age(each.lag_s)}, ${number(each.lag)} rows${each.trend ? `, ${each.trend}` : ""}`],
    ["Too late", number(each.late)], ["Last batch took", age(each.batch_s)], ["Restarts", number(each.restarts)]];
  return el("section", { class: "pane" }, el("h2", { class: "mono" }, each.name),
    each.error ? el("p", { class: "bad" }, `✗ ${each.error}`) : null,
    el("dl", { class: "facts" }, facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
    each.batches.length > 1 ? [el("h2", {}, "Last batches"), shape(each.batches)] : null,
    each.batches.length ? el("details", {}, el("summary", {}, "As a table"),
      table("Batches", [["At", ""], ["Rows", "number"], ["Took", "number"], ["Behind", "number"]],
        [...each.batches].reverse().slice(0, 30).map(([at, rows, took, behind]) => [clock(at ?? 0), number(rows), age(took), age(behind)]))) : null);
}

/** Seconds behind after each batch, so that falling behind is a shape. */
function shape(batches) {
  const [width, height] = [600, 90];
  const most = Math.max(1, ...batches.map((one) => one[3] ?? 0));
  const x = (i) => 40 + (width - 48) * i / Math.max(1, batches.length - 1);
  const y = (value) => height - 18 - (height - 30) * value / most;
  const points = batches.map((one, i) => [x(i), y(one[3] ?? 0)]);
  return svg("svg", { class: "plot small", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `behind after each of ${batches.length} batches: at most ${age(most)}, now ${age(batches.at(-1)[3])}` },
  svg("text", { x: 36, y: y(most) + 4, "text-anchor": "end" }, age(most)), svg("text", { x: 36, y: y(0) + 4, "text-anchor": "end" }, "0"),
  svg("line", { class: "tick", x1: 40, x2: width - 8, y1: y(0), y2: y(0) }),
  svg("polyline", { class: "curve", points: points.map((one) => one.map((n) => n.toFixed(1)).join(",")).join(" ") }),
  svg("text", { x: 40, y: height - 3 }, clock(batches[0][0] ?? 0)), svg("text", { x: width - 8, y: height - 3, "text-anchor": "end" }, clock(batches.at(-1)[0] ?? 0)));
}
