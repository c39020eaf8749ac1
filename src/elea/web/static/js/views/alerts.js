// Alerts: what is raised first, then those of a day. Both events of one alert are one line.

import { el, replace, setText } from "../dom.js";
import { age, clock, counted, number } from "../format.js";
import { command, table } from "../parts.js";
import { href } from "../route.js";

const COLUMNS = [["", ""], ["Alert", ""], ["Of", ""], ["Raised", ""], ["Lasted", "number"], ["Values", ""], ["Key", "key"]];

export function alerts(root, app) {
  const summary = el("p", { class: "muted", role: "status" }, "Asking for those of a day …");
  const list = el("section", { class: "values" });
  root.append(el("h1", {}, "Alerts"), summary, list, command("elea sub 'alerts/**'"));
  const wanted = app.live.want("alerts", {}, (part) => {
    if (part.denied) return setText(summary, `Not allowed: ${part.denied}`);
    if (!part.alerts.length) {
      setText(summary, "No alert since yesterday. An alert table of a pipeline publishes on alerts/**, or a rule of an application does.");
      return replace(list);
    }
    setText(summary, `${part.raised ? `▲ ${number(part.raised)} raised` : "none raised"}, ${counted(part.alerts.length, "alert")} since yesterday`
      + (part.skip ? `; ${number(part.skip)} older ones are not shown` : "") + (part.invalid ? `; ${counted(part.invalid, "sample")} on alerts/** are not alerts` : ""));
    replace(list, table("Alerts", COLUMNS, part.alerts.map((one) => row(one, app))));
  });
  return { leave: () => wanted.drop() };
}

function row([id, key, groups, raised, cleared, sampleKey, values], app) {
  const open = cleared === null;
  const around = raised === null ? null : el("a", { href: href("plot", sampleKey, raised) }, sampleKey);
  return [el("span", { class: open ? "warn" : "ok" }, open ? "▲ raised" : "✓ cleared"), el("span", { title: `${key}, id ${id}` }, key.slice(key.lastIndexOf("/") + 1)),
    groups || "–", raised === null ? "–" : clock(raised), age(raised === null ? null : (open ? app.live.now() : cleared) - raised),
    el("span", { class: "mono" }, values || "–"), sampleKey ? around ?? sampleKey : "–"];
}
