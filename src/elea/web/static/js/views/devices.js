// Devices: those of the XRCE gateway here, and bridges to DDS.

import { el, replace, setText } from "../dom.js";
import { age, counted, number } from "../format.js";
import { command, table } from "../parts.js";

const DEVICES = [["Device", ""], ["At", ""], ["State", ""], ["Lease", "number"], ["Resources", ""], ["Writes", "number"], ["Reads", "number"],
  ["Unacknowledged", "number"], ["Counted", ""]];
const BRIDGES = [["Bridge", ""], ["Domain", "number"], ["Participants", "number"], ["Endpoints", "number"], ["Routes", ""], ["State", ""], ["Library", ""], ["Counted", ""]];

export function devices(root, app) {
  const summary = el("p", { class: "muted", role: "status" }, "Asking this router …");
  const list = el("section", { class: "values" });
  const left = el("section");
  const bridges = el("section", { class: "values" });
  root.append(el("h1", {}, "Devices"), summary, list, el("h2", {}, "Left"), left, el("h2", {}, "Bridges to DDS"), bridges, command("elea get '@xrce/**'"));
  const wanted = app.live.want("devices", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    setText(summary, part.gateway
      ? `gateway at ${part.gateway.listen.join(" ") || "no address"}, ${counted(part.devices.length, "device")}; ${words(part.gateway.counts)}${part.skip ? `; ${number(part.skip)} further ones are not shown` : ""}`
      : "No gateway for XRCE devices runs here: plugins/xrce turns it on.");
    replace(list, part.devices.length ? table("Devices", DEVICES, part.devices.map(device)) : null);
    replace(left, part.left.length ? table("Left", [["Device", ""], ["Why", ""], ["Reason", "number"]], part.left.map(([pid, why, reason]) => [pid, why, number(reason)]))
      : el("p", { class: "muted" }, "none"));
    replace(bridges, part.bridges.length ? table("Bridges", BRIDGES, part.bridges.map(bridge))
      : el("p", { class: "muted" }, "none runs here: plugins/dds turns one on"));
  });
  return { leave: () => wanted.drop() };
}

function words(counts) {
  return counts.length ? counts.map(([name, count]) => `${number(count)} ${name.replaceAll("_", " ")}`).join(", ") : "nothing counted so far";
}

function device(one) {
  const names = one.names.join(" ") + (one.names_skip ? ` and ${number(one.names_skip)} more` : "");
  return [one.pid, one.source || "–", one.state || "–", age(one.lease_ms === null ? null : one.lease_ms / 1000), names || "–", number(one.writes), number(one.reads),
    number(one.unacknowledged), words(one.counts)];
}

function bridge(one) {
  const state = one.stuck ? el("span", { class: "bad" }, `✗ stuck: ${one.stuck}`) : one.standby ? "○ stands by" : el("span", { class: "ok" }, "● works");
  return [one.name, number(one.domain), number(one.participants), number(one.endpoints), words(one.routes), state, one.library, words(one.counts)];
}
