// The page: header, rail, keys, and the view that the address names.

import { setToken, takeToken } from "./api.js";
import { el, replace, setText } from "./dom.js";
import { counted, number } from "./format.js";
import { Live } from "./live.js";
import { href, read } from "./route.js";
import { devices } from "./views/devices.js";
import { keys } from "./views/keys.js";
import { log } from "./views/log.js";
import { network } from "./views/network.js";
import { plot } from "./views/plot.js";
import { now } from "./views/now.js";
import { query } from "./views/query.js";
import { why } from "./views/why.js";

const VIEWS = [["now", "Now", now], ["keys", "Keys", keys], ["plot", "Plot", plot], ["network", "Network", network],
  ["why", "Why?", why], ["query", "Query", query], ["log", "Log", log],
  ["devices", "Devices", devices]];
const THEMES = ["system", "light", "dark"];

const view = document.getElementById("view");
const spoken = document.getElementById("status");
const mark = el("span", { class: "chip" }, "connecting");
const name = el("span", { class: "name" }, "Elea");
const rates = el("span", { class: "chip values" });
const drops = el("a", { class: "chip", href: href("now"), hidden: true });
const banner = el("div", { class: "banner", hidden: true });
const pauseButton = el("button", { type: "button", "aria-pressed": "false", onclick: () => pause(!live.paused) }, "Pause");
const themeButton = el("button", { type: "button", onclick: nextTheme });

let current = null;
let state = "";
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
  go: (where, rest) => { location.hash = href(where, rest); },
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
  } }, el("label", { for: "token" }, "Token"), field, el("button", { type: "submit" }, "Show"));
  banner.hidden = false;
  banner.replaceChildren(el("p", {}, detail), form);
}

function pause(paused) {
  live.pause(paused);
  pauseButton.setAttribute("aria-pressed", String(paused));
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
    setText(rates, part.rates ? `${number(part.rates[0])} in/s  ${number(part.rates[2])} out/s` : "rates in 2 s");
    const dropped = part.drops.reduce((sum, [, count]) => sum + count, 0);
    drops.hidden = !dropped;
    setText(drops, dropped ? `▲ ${counted(dropped, "message")} dropped` : "");
  }
  for (const listener of listeners) listener(part);
}

function open() {
  const route = read();
  const found = VIEWS.find(([key]) => key === route.view) ?? VIEWS[0];
  for (const link of document.querySelectorAll("#rail a")) {
    if (link.dataset.view === found[0]) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" }); // it is a row on narrow screens
    } else link.removeAttribute("aria-current");
  }
  if (current?.key === found[0] && current.shown.change) return current.shown.change(route.rest);
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
  } else if (event.key === " " && !event.target.closest?.("button, a")) {
    event.preventDefault();
    pause(!live.paused);
  }
}

takeToken();
document.getElementById("top").append(name, mark, rates, drops, el("span", { class: "end" }, pauseButton, themeButton), banner);
document.getElementById("rail").append(...VIEWS.map(([key, label], i) =>
  el("a", { href: href(key), "data-view": key, title: `key ${i + 1}` }, label)));
setTheme(localStorage.getItem("elea.theme") ?? "system");
addEventListener("hashchange", open);
addEventListener("keydown", pressed);
live.want("status", {}, showStatus);
open();
live.connect();
