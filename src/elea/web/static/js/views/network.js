// Network: nodes and sessions, what was refused to whom, and the audit.

import { el, replace, setText, svg } from "../dom.js";
import { clock, counted, number } from "../format.js";
import { command, table, Tabs } from "../parts.js";

const NODES_MAX = 60; // in the map; more are in the list only
const TABS = [["sessions", "Sessions"], ["nodes", "Nodes"], ["refused", "Refused"], ["audit", "Audit"]];
const COMMANDS = { sessions: "elea top", nodes: "elea graph", refused: "elea acl explain", audit: "elea acl verify FILE" };

export function network(root, app, rest) {
  const summary = el("p", { class: "muted", id: "summary" }, "Asking the nodes …");
  const map = svg("svg", { class: "map", viewBox: "0 0 800 300", role: "img", "aria-label": "Map of nodes and sessions" });
  const panel = el("section", { class: "values" });
  const foot = el("div");
  const tabs = new Tabs(TABS, panel, (tab) => app.go("network", tab === "sessions" ? "" : tab));
  root.append(el("h1", {}, "Network"), summary, map, tabs.list, panel, foot);
  let nodes = null;
  let feed = null;
  const draw_ = () => {
    replace(foot, command(COMMANDS[tabs.tab]));
    const told = { sessions: nodes && listed(nodes.sessions), nodes: nodes && described(nodes.nodes), refused: feed && refusals(feed, nodes), audit: feed && audit(feed) };
    replace(panel, told[tabs.tab] ?? el("p", { class: "muted" }, "Asking …"));
  };
  const wanted = app.live.want("nodes", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    nodes = part;
    setText(summary, `${counted(part.nodes.length, "node")} and ${counted(part.sessions.length, "session")}`
      + (part.skip ? `, ${number(part.skip)} further ones are not shown` : ""));
    draw(map, part);
    draw_();
  });
  const more = app.live.want("feed", {}, (part) => {
    if (part.denied) return;
    feed = part;
    draw_();
  });
  tabs.pick(rest || "sessions");
  draw_();
  return { change: (next) => { tabs.pick(next || "sessions"); draw_(); }, leave: () => { wanted.drop(); more.drop(); } };
}

function refusals(feed, nodes) {
  const sums = nodes?.refused ?? [];
  const counts = sums.length ? el("p", {}, `Since the start of this router: ${sums.map(([name, count]) => `${number(count)} ${name}`).join("; ")}.`)
    : el("p", { class: "muted" }, "nothing so far");
  if (!feed.refusals.length) return el("div", {}, counts, feed.told ? null : el("p", { class: "muted" }, "this node does not tell to whom"));
  return el("div", {}, counts, table("Refused", [["Who", ""], ["Action", ""], ["Key", "key"], ["Rule or reason", ""], ["Times", "number"], ["Last", ""]],
    feed.refusals.map(([who, action, key, rule, count, at]) => [who, action, key || "–", rule || "the default", number(count), at ? clock(at) : "–"])));
}

function audit(feed) {
  if (feed.audit === null) return el("p", { class: "muted" }, "The audit is not told here: the node has none, or you may not read it.");
  const chain = feed.broken ? el("p", { class: "bad" }, `✗ the chain of the last lines is broken: ${feed.broken}`) : el("p", { class: "ok" }, "● the chain of these lines holds");
  return el("div", {}, chain, feed.lost ? el("p", { class: "bad" }, `✗ ${counted(feed.lost, "line")} could not be written`) : null,
    feed.audit.length ? table("Audit", [["At", ""], ["Event", ""], ["What", "long"]], feed.audit.map(([at, event, words]) => [clock(at), event, words]))
      : el("p", { class: "muted" }, "no line yet"));
}

function listed(sessions) {
  if (!sessions.length) return el("p", { class: "muted" }, "no session");
  const columns = [["At", ""], ["Session", ""], ["Role", ""], ["In/s", "number"], ["Out/s", "number"], ["Dropped", "number"],
    ["Queued B", "number"], ["Link", ""], ["Identity", ""]];
  const load = (one) => (one.in ?? 0) + (one.out ?? 0);
  return table("Sessions", columns, [...sessions].sort((a, b) => load(b) - load(a) || (a.zid < b.zid ? -1 : 1)).map((one) => [
    one.at_name, el("span", { title: one.zid }, one.name), one.role, number(one.in), number(one.out),
    one.drops.length ? el("span", { class: "warn", title: one.drops.map(([name, count]) => `${count} ${name}`).join(", ") }, `▲ ${number(one.dropped)}`) : number(one.dropped),
    number(one.waiting), one.protocol, one.identity || "–"]));
}

function described(nodes) {
  const columns = [["Name", ""], ["Role", ""], ["Version", ""], ["Listens at", ""], ["Processor", "number"], ["Id", ""]];
  return table("Nodes", columns, nodes.map((one) => [one.name, one.role, one.version, one.locators.join(" ") || "–",
    one.cpu === null ? "–" : `${Math.round(one.cpu * 100)} %`, el("code", {}, one.zid)]));
}

/** Places by rank: those that answer on one line, their other neighbours around; the same each time. */
function draw(map, part) {
  const named = new Map(part.nodes.map((one) => [one.zid, { ...one, leaves: [] }]));
  const hosts = [...named.values()].slice(0, NODES_MAX);
  for (const one of part.sessions) if (!named.has(one.zid)) named.get(one.at)?.leaves.push(one);
  const text = JSON.stringify(hosts.map((one) => [one.zid, one.name, one.leaves.map((leaf) => [leaf.zid, leaf.name])]));
  if (map.dataset.text === text) return;
  map.dataset.text = text;
  const place = new Map();
  hosts.forEach((one, i) => place.set(one.zid, [800 * (i + 0.5) / hosts.length, 150]));
  const lines = [];
  const dots = [];
  for (const one of part.sessions) {
    const [a, b] = [place.get(one.at), place.get(one.zid)];
    if (a && b && one.at < one.zid) lines.push(link(a, b));
  }
  for (const host of hosts) {
    const [x, y] = place.get(host.zid);
    const shown = host.leaves.length > 12 ? [{ name: counted(host.leaves.length, "client") }] : host.leaves;
    shown.forEach((leaf, i) => {
      const angle = 2 * Math.PI * i / shown.length - Math.PI / 2;
      const at = [x + Math.min(150, 380 / hosts.length) * Math.cos(angle), y + 95 * Math.sin(angle)];
      lines.push(link([x, y], at));
      dots.push(...node(at, 7, leaf.name, ""));
    });
    dots.push(...node([x, y], 13, host.name, host.role));
  }
  map.replaceChildren(...lines, ...dots);
}

function link([x1, y1], [x2, y2]) {
  return svg("line", { x1, y1, x2, y2 });
}

function node([x, y], r, name, kind) {
  const short = name.length > 24 ? `${name.slice(0, 23)}…` : name;
  return [svg("circle", { cx: x, cy: y, r, class: kind }), svg("text", { x, y: y + r + 13 }, short)];
}
