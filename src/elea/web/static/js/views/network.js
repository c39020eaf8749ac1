// Network: nodes, sessions, what was refused.

import { el, replace, setText, svg } from "../dom.js";
import { counted, number } from "../format.js";
import { command, table } from "../parts.js";

const NODES_MAX = 60; // in the map; more are in the list only

export function network(root, app) {
  const summary = el("p", { class: "muted", id: "summary" }, "Asking the nodes …");
  const map = svg("svg", { class: "map", viewBox: "0 0 800 300", role: "img", "aria-label": "Map of nodes and sessions" });
  const sessions = el("section", { class: "values" });
  const nodes = el("section");
  const refused = el("section");
  root.append(el("h1", {}, "Network"), summary, map, el("h2", {}, "Sessions"), sessions, el("h2", {}, "Nodes that answer"), nodes,
    el("h2", {}, "Refused at this router"), refused, command("elea top"));
  const wanted = app.live.want("nodes", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    setText(summary, `${counted(part.nodes.length, "node")} and ${counted(part.sessions.length, "session")}`
      + (part.skip ? `, ${number(part.skip)} further ones are not shown` : ""));
    draw(map, part);
    replace(sessions, listed(part.sessions));
    replace(nodes, described(part.nodes));
    replace(refused, part.refused.length
      ? table("Refused", [["What", ""], ["Count", "number"]], part.refused.map(([name, count]) => [name, number(count)]))
      : el("p", { class: "muted" }, "nothing so far"));
  });
  return { leave: () => wanted.drop() };
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
