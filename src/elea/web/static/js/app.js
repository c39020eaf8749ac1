// The page: header, rail, keys, and the view that the address names.

import { get, setToken, takeToken } from "./api.js";
import { el, replace, setText } from "./dom.js";
import { clock, counted, number } from "./format.js";
import { Live } from "./live.js";
import { href, read } from "./route.js";
import { alerts } from "./views/alerts.js";
import { devices } from "./views/devices.js";
import { keys } from "./views/keys.js";
import { log } from "./views/log.js";
import { network } from "./views/network.js";
import { pipelines } from "./views/pipelines.js";
import { plot } from "./views/plot.js";
import { now } from "./views/now.js";
import { query } from "./views/query.js";
import { sql } from "./views/sql.js";
import { why } from "./views/why.js";

const VIEWS = [["now", "Now", now], ["keys", "Keys", keys], ["plot", "Plot", plot], ["network", "Network", network],
  ["why", "Why?", why], ["query", "Query", query], ["log", "Log", log], ["pipelines", "Pipelines", pipelines], ["sql", "SQL", sql],
  ["devices", "Devices", devices], ["alerts", "Alerts", alerts]];
const TIMED = ["keys", "plot"]; // views that can show another time than now
const THEMES = ["system", "light", "dark"];

const view = document.getElementById("view");
const spoken = document.getElementById("status");
const mark = el("span", { class: "chip" }, "connecting");
const name = el("span", { class: "name" }, "Elea");
const rates = el("span", { class: "chip values" });
const drops = el("a", { class: "chip", href: href("now"), hidden: true });
const banner = el("div", { class: "banner", hidden: true });
const pauseButton = el("button", { type: "button", "aria-pressed": "false", onclick: () => pause(!live.paused) }, "Pause");
const timeButton = el("button", { type: "button", "aria-expanded": "false", "aria-controls": "when", onclick: () => askForTime() }, "At …");
const when = el("form", { id: "when", class: "tools when", hidden: true });
const themeButton = el("button", { type: "button", onclick: nextTheme });

let current = null;
let state = "";
let at = null; // the time that is shown; null: now
let statusPart = null;
const listeners = new Set();

const live = new Live(tell);
const app = {
  live,
  /** Be told of the status: at once if it is known, and whenever it changes. */
  onStatus(listener) {
    listeners.add(listener);
    if (statusPart) listener(statusPart);
    return () => listeners.delete(listener);
  },
  go: (where, rest) => { location.hash = href(where, rest, at); },
  /** Go somewhere as it was at a time, in seconds; null: as it is now. */
  goAt: (where, rest, time) => { location.hash = href(where, rest, time); },
  get at() { return at; },
  mayOperate: false,
};

function tell(next, detail) {
  const words = { live: "● live", paused: "paused", stale: `▲ ${detail}`, lost: "✗ disconnected", token: "✗ needs a token" };
  setText(mark, words[next]);
  mark.className = `chip ${{ live: "ok", stale: "warn", lost: "bad", token: "bad" }[next] ?? ""}`;
  document.body.classList.toggle("stale", next === "stale" || next === "lost");
  if (next === "lost") showBanner(detail);
  else if (next === "token") askForToken(detail);
  else if (state !== next) banner.hidden = true;
  if (state !== next && next !== "stale") setText(spoken, words[next].replace(/^\W+/, ""));
  state = next;
}

function showBanner(text) {
  banner.hidden = false;
  replace(banner, `${text} `, el("button", { type: "button", onclick: () => live.connect() }, "Now"));
}

function askForToken(detail) {
  const field = el("input", { type: "password", id: "token", autocomplete: "off" });
  const form = el("form", { class: "tools", onsubmit: (event) => {
    event.preventDefault();
    setToken(field.value);
    live.connect();
    askForRights();
  } }, el("label", { for: "token" }, "Token"), field, el("button", { type: "submit" }, "Show"));
  banner.hidden = false;
  banner.replaceChildren(el("p", {}, detail), form);
}

function pause(paused) {
  live.pause(paused);
  pauseButton.setAttribute("aria-pressed", String(paused));
}

function showTime() {
  timeButton.textContent = at === null ? "At …" : `At ${moment(at)}`;
  timeButton.setAttribute("aria-pressed", String(at !== null));
  timeButton.setAttribute("aria-expanded", String(!when.hidden));
  document.body.classList.toggle("past", at !== null);
  for (const link of document.querySelectorAll("#rail a")) link.setAttribute("href", href(link.dataset.view, "", TIMED.includes(link.dataset.view) ? at : null));
}

/** A form for a time; what is shown then is what was known at that time. */
function askForTime() {
  when.hidden = !when.hidden;
  timeButton.setAttribute("aria-expanded", String(!when.hidden));
  if (when.hidden) return;
  const field = el("input", { id: "when-time", type: "text", class: "mono", autocomplete: "off", spellcheck: "false",
    value: local(at ?? live.now()), placeholder: "2026-11-16 14:03:07, or 14:03, or -10m" });
  const note = el("span", { class: "bad", role: "status" });
  when.replaceChildren(el("label", { for: "when-time" }, "Show values and plots as they were at"), field, el("button", { type: "submit" }, "Show"),
    el("button", { type: "button", onclick: () => { when.hidden = true; goTo(null); } }, "Live"), note);
  when.onsubmit = (event) => {
    event.preventDefault();
    const time = instant(field.value.trim(), live.now());
    if (time === null) return setText(note, "expected a date and time, a time of today, or -10m");
    when.hidden = true;
    goTo(time);
  };
  field.focus();
  field.select();
}

function goTo(time) {
  const route = read();
  const view = time === null || TIMED.includes(route.view) ? route.view : "keys";
  location.hash = href(view, view === route.view ? route.rest : "", time);
}

/** Seconds since 1970 of what somebody typed. */
function instant(text, now) {
  const ago = /^-(\d+(?:\.\d+)?)\s*([smhd])$/.exec(text);
  if (ago) return now - Number(ago[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[ago[2]];
  const today = /^(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?$/.exec(text);
  if (today) {
    const date = new Date(now * 1000);
    date.setHours(Number(today[1]), Number(today[2]), 0, 0);
    return date.getTime() / 1000 + Number(today[3] ?? 0);
  }
  const ms = Date.parse(text.replace(" ", "T"));
  return Number.isNaN(ms) ? null : ms / 1000;
}

function local(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")} ${clock(seconds)}`;
}

/** A time of day; with the date if it is another day. */
function moment(seconds) {
  return new Date(seconds * 1000).toDateString() === new Date().toDateString() ? clock(seconds) : local(seconds);
}

async function askForRights() {
  try {
    app.mayOperate = (await get("about")).may_operate === true;
  } catch { app.mayOperate = false; }
  if (app.mayOperate) open();
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(localStorage.getItem("elea.theme") ?? "system") + 1) % THEMES.length]);
}

function setTheme(theme) {
  localStorage.setItem("elea.theme", theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(themeButton, `Theme: ${theme}`);
}

function showStatus(part) {
  statusPart = part;
  if (part.denied) setText(rates, `not allowed: ${part.denied}`);
  else {
    setText(name, part.name);
    document.title = `${part.name} · Elea`;
    setText(rates, part.rates ? `${number(part.rates[0])} in/s · ${number(part.rates[2])} out/s` : part.counted ? "rates in 2 s" : "");
    const dropped = part.drops.reduce((sum, [, count]) => sum + count, 0);
    drops.hidden = !dropped;
    setText(drops, dropped ? `▲ ${counted(dropped, "message")} dropped` : "");
  }
  for (const listener of listeners) listener(part);
}

function open() {
  const route = read();
  const moved = route.at !== at;
  at = route.at;
  showTime();
  const found = VIEWS.find(([key]) => key === route.view) ?? VIEWS[0];
  for (const link of document.querySelectorAll("#rail a")) {
    if (link.dataset.view === found[0]) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" }); // it is a row on narrow screens
    } else link.removeAttribute("aria-current");
  }
  if (current?.key === found[0] && current.shown.change && !moved) return current.shown.change(route.rest);
  current?.shown.leave?.();
  view.replaceChildren();
  current = { key: found[0], shown: found[2](view, app, route.rest) };
}

function pressed(event) {
  const typing = event.target.closest?.("input, textarea, select");
  if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
    event.preventDefault();
    if (current.key !== "keys") { location.hash = href("keys"); open(); }
    document.getElementById("find")?.focus();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    // what is typed is no command
  } else if (/^[1-9]$/.test(event.key) && VIEWS[event.key - 1]) {
    location.hash = href(VIEWS[event.key - 1][0]);
  } else if (event.key === "." && at !== null) {
    goTo(null);
  } else if (event.key === " " && !event.target.closest?.("button, a")) {
    event.preventDefault();
    pause(!live.paused);
  }
}

takeToken();
document.getElementById("top").append(name, mark, rates, drops, el("span", { class: "end" }, pauseButton, timeButton, themeButton), when, banner);
document.getElementById("rail").append(...VIEWS.map(([key, label], i) =>
  el("a", { href: href(key), "data-view": key, title: `key ${i + 1}` }, label)));
setTheme(localStorage.getItem("elea.theme") ?? "system");
addEventListener("hashchange", open);
addEventListener("keydown", pressed);
live.want("status", {}, showStatus);
open();
live.connect();
askForRights();
