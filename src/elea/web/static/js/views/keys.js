// Keys: the tree of what is declared, the last values of those in view, and one key in full.

import { el, replace, setText } from "../dom.js";
import { age, counted, number } from "../format.js";
import { command, quoted } from "../parts.js";
import { href } from "../route.js";
import { Tree } from "../tree.js";

const TABS = [["value", "Value"], ["bytes", "Bytes"], ["who", "Who"]];
const KINDS = { publisher: "Publishers", subscriber: "Subscribers", queryable: "Queryables", querier: "Queriers", token: "Tokens" };

export function keys(root, app, rest) {
  const view = new Keys(app);
  root.append(el("h1", {}, "Keys"), view.tools, el("div", { class: "split" }, view.tree.grid, view.inspector), view.foot);
  view.start(rest);
  return view;
}

class Keys {
  constructor(app) {
    this.app = app;
    this.open = new Set();
    this.key = "";
    this.tab = "value";
    this.find = el("input", { id: "find", class: "wide", type: "search", placeholder: "words of a key", autocomplete: "off",
      spellcheck: "false", oninput: () => this.changed(), onkeydown: (event) => this.typed(event) });
    this.count = el("span", { class: "muted" });
    this.tools = el("div", { class: "tools" }, el("label", { for: "find" }, "Find"), this.find, this.count);
    this.tree = new Tree({
      window: () => this.changed(),
      select: (key) => app.go("keys", key),
      toggle: (key, open) => { if (open) this.open.add(key); else this.open.delete(key); this.changed(); },
    });
    this.inspector = el("section", { class: "pane inspector", "aria-label": "Selected key", tabindex: 0 });
    this.foot = el("div");
  }

  start(rest) {
    const { live } = this.app;
    this.wanted = live.want("tree", this.params(), (part) => this.showTree(part));
    this.values = live.want("rows", { keys: [] }, (part) => this.tree.showValues(part.v));
    this.one = null;
    this.sizes = new ResizeObserver(() => this.changed());
    this.sizes.observe(this.tree.body);
    this.change(rest);
  }

  leave() {
    for (const handle of [this.wanted, this.values, this.one]) handle?.drop();
    this.sizes.disconnect();
    this.tree.leave();
  }

  params() {
    return { keys: [...this.open].slice(0, 200), words: this.find.value, ...this.tree.window() };
  }

  changed() {
    const next = this.params();
    const text = JSON.stringify(next);
    if (text === this.asked) return;
    this.asked = text;
    this.wanted.change(next);
  }

  typed(event) {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    if (event.key === "Enter" && this.find.value.includes("/")) return this.app.go("keys", this.find.value);
    this.tree.move(0);
    if (event.key === "Enter") this.tree.choose();
    else this.tree.grid.focus();
  }

  showTree(part) {
    if (part.denied) return setText(this.count, `not allowed: ${part.denied}`);
    this.tree.show(part);
    const more = part.skip ? `, ${number(part.skip)} further ones are not shown` : "";
    setText(this.count, part.keys ? `${counted(part.keys, "declared key")}${more}` : "no key is declared yet: try elea demo, or elea pub demo/a 1");
    const inView = this.tree.keysInView();
    const text = inView.join("\n");
    if (text !== this.watched) {
      this.watched = text;
      this.values.change({ keys: inView.slice(0, 200) });
    }
  }

  change(rest) {
    this.key = rest;
    this.one?.drop();
    this.one = null;
    replace(this.foot, command(rest ? `elea sub ${quoted(rest)}` : "elea ls"));
    if (!rest) return this.inspector.replaceChildren(el("p", { class: "muted" }, "Select a key: arrows and Enter, or click."));
    this.parts = { title: el("h2", { class: "mono" }, "…"), facts: el("dl", { class: "facts values" }), body: el("div", {}) };
    this.tabs = TABS.map(([id, label]) => el("button", { type: "button", class: "tab", role: "tab", id: `tab-${id}`,
      "aria-controls": "tabpanel", onclick: () => this.pick(id), onkeydown: (event) => this.walk(event) }, label));
    const panel = el("div", { role: "tabpanel", id: "tabpanel", tabindex: 0 }, this.parts.facts, this.parts.body);
    this.inspector.replaceChildren(this.parts.title,
      el("div", { class: "tabs" }, el("div", { role: "tablist", class: "tabs", "aria-label": "About the key" }, this.tabs),
        el("a", { href: href("plot", rest) }, "Plot"), el("a", { href: href("why", rest) }, "Why?"), el("a", { href: href("query", rest) }, "Query")), panel);
    this.last = null;
    this.pick(this.tab);
    this.one = this.app.live.want("value", { keys: [rest] }, (part) => { this.last = part; this.showOne(); });
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (TABS.findIndex(([id]) => id === this.tab) + step + TABS.length) % TABS.length;
    this.pick(TABS[at][0]);
    this.tabs[at].focus();
  }

  pick(tab) {
    this.tab = tab;
    TABS.forEach(([id], i) => {
      this.tabs[i].setAttribute("aria-selected", String(id === tab));
      this.tabs[i].tabIndex = id === tab ? 0 : -1;
    });
    document.getElementById("tabpanel")?.setAttribute("aria-labelledby", `tab-${tab}`);
    this.showOne();
  }

  showOne() {
    const part = this.last;
    if (!part) return;
    setText(this.parts.title, part.key);
    const { facts, body } = this.parts;
    if (this.tab === "who") {
      replace(facts);
      return replace(body, who(part.users));
    }
    const value = part.value;
    if (!value) {
      replace(facts);
      return replace(body, el("p", { class: "muted" }, part.note || "no sample since this key is shown"));
    }
    const rows = [["Per second", number(part.rate)], ["Received here", number(part.count)], ["Age", age(value.age)],
      ["Encoding", value.encoding], ["Bytes", `${number(value.length)}${value.shown < value.length ? `, the first ${number(value.shown)} are shown` : ""}`],
      ["Timestamp", value.timestamp || "none"], ["Source", value.source || "not told"],
      value.attachment ? ["Attachment", `${number(value.attachment)} bytes`] : null].filter(Boolean);
    replace(facts, rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
    if (value.kind === "DELETE") return replace(body, el("p", {}, "The key was deleted."));
    const lines = this.tab === "bytes" ? value.hex : value.lines;
    const more = this.tab === "value" && value.more ? el("p", { class: "muted" }, `${number(value.more)} further lines`) : null;
    replace(body, el("pre", {}, lines.join("\n")), more);
  }
}

function who(users) {
  if (users === null) return el("p", { class: "bad" }, "Not allowed to ask the nodes.");
  const kinds = Object.entries(users);
  if (!kinds.length) return el("p", { class: "muted" }, "No declaration: values may still be put on this key.");
  return el("div", {}, kinds.map(([kind, names]) => el("div", {}, el("h2", {}, KINDS[kind]),
    el("ul", { class: "plain" }, names.map((name) => el("li", {}, name))))));
}
