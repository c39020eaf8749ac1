// Keys: the tree of what is declared, the last values of those in view, and one key in full.

import { post } from "../api.js";
import { el, replace, setText } from "../dom.js";
import { age, counted, number, stamp } from "../format.js";
import { command, quoted } from "../parts.js";
import { href } from "../route.js";
import { Tree } from "../tree.js";

const TABS = [["value", "Value"], ["bytes", "Bytes"], ["who", "Who"], ["tables", "Tables"], ["put", "Put"]];
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
    this.sizes.observe(this.tree.grid);
    this.change(rest);
  }

  leave() {
    this.asked_ = null;
    for (const handle of [this.wanted, this.values, this.one, this.lineage]) handle?.drop();
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
    setText(this.count, part.keys ? `${counted(part.keys, "key")}${more}` : "no key is declared yet: try elea demo, or elea pub demo/a 1");
    const inView = this.tree.keysInView();
    const text = inView.join("\n");
    if (text !== this.watched) {
      this.watched = text;
      this.values.change({ keys: inView.slice(0, 200) });
    }
  }

  change(rest) {
    this.key = rest;
    this.tree.reveal(rest);
    const chunks = rest.split("/");
    for (let i = 1; i < chunks.length; i += 1) this.open.add(chunks.slice(0, i).join("/"));
    this.changed();
    this.one?.drop();
    this.lineage?.drop();
    this.one = this.lineage = this.tables = this.form = null;
    const { at } = this.app;
    replace(this.foot, command(!rest ? "elea ls" : at === null ? `elea sub ${quoted(rest)}` : `elea get ${quoted(`${rest}?_at=${iso(at)}`)}`));
    if (!rest) return this.inspector.replaceChildren(el("p", { class: "muted" }, "Select a key: arrows and Enter, or click."));
    this.parts = { title: el("h2", { class: "mono" }, "…"), facts: el("dl", { class: "facts values" }), body: el("div", {}) };
    this.shownTabs = TABS.filter(([id]) => id !== "put" || this.app.mayOperate);
    if (!this.shownTabs.some(([id]) => id === this.tab)) this.tab = "value";
    this.tabs = this.shownTabs.map(([id, label]) => el("button", { type: "button", class: "tab", role: "tab", id: `tab-${id}`,
      "aria-controls": "tabpanel", onclick: () => this.pick(id), onkeydown: (event) => this.walk(event) }, label));
    const panel = el("div", { role: "tabpanel", id: "tabpanel", tabindex: 0 }, this.parts.facts, this.parts.body);
    this.inspector.replaceChildren(this.parts.title,
      el("div", { class: "tabs" }, el("div", { role: "tablist", class: "tabs", "aria-label": "About the key" }, this.tabs),
        el("a", { href: href("plot", rest, at) }, "Plot"), el("a", { href: href("why", rest) }, "Why?"), el("a", { href: href("query", rest) }, "Query")), panel);
    this.last = this.recalled = null;
    this.pick(this.tab);
    if (at !== null) return this.askPast(rest, at);
    this.one = this.app.live.want("value", { keys: [rest] }, (part) => { this.last = part; this.showOne(); });
  }

  /** The value as of a time, from whoever keeps versions. */
  async askPast(key, at) {
    const mine = this.asked_ = {};
    if (at !== null) setText(this.parts.title, key);
    replace(this.parts.body, el("p", { class: "muted" }, at === null ? "no sample since this key is shown; asking for its last one …" : "Asking for the past …"));
    try {
      const { rows } = await post("query", { selector: at === null ? key : `${key}?_at=${iso(at)}` });
      if (mine !== this.asked_) return;
      const found = rows.filter((row) => !row.error);
      const when = found[0]?.timestamp;
      replace(this.parts.facts, found.length ? [el("dt", {}, at === null ? "Last value, of" : "Value of"), el("dd", {}, when ? stamp(when) : "–"), el("dt", {}, "Encoding"), el("dd", {}, found[0].encoding)] : null);
      replace(this.parts.body, found.length ? el("pre", {}, found[0].lines.join("\n"))
        : el("p", { class: "muted" }, rows[0]?.error ? rows[0].lines.join(" ") : at === null ? "no sample since this key is shown, and nothing keeps its last one"
          : "not recorded: nothing knows a value of this key at that time"));
    } catch (error) {
      if (mine === this.asked_) replace(this.parts.body, el("p", { class: "bad" }, error.message));
    }
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = this.shownTabs.map(([id]) => id);
    const at = (names.indexOf(this.tab) + step + names.length) % names.length;
    this.pick(names[at]);
    this.tabs[at].focus();
  }

  pick(tab) {
    this.tab = tab;
    this.shownTabs.forEach(([id], i) => {
      this.tabs[i].setAttribute("aria-selected", String(id === tab));
      this.tabs[i].tabIndex = id === tab ? 0 : -1;
    });
    document.getElementById("tabpanel")?.setAttribute("aria-labelledby", `tab-${tab}`);
    this.showOne();
  }

  showOne() {
    const { facts, body } = this.parts;
    if (this.tab === "tables") {
      replace(facts);
      this.lineage ??= this.app.live.want("pipelines", { keys: [this.key] }, (part) => { this.tables = part; if (this.tab === "tables") this.showOne(); });
      return replace(body, lineage(this.tables));
    }
    if (this.tab === "put") {
      replace(facts);
      this.form ??= putForm(this.key);
      if (body.firstChild !== this.form) body.replaceChildren(this.form);
      return;
    }
    const part = this.last;
    if (!part) return this.app.at === null ? undefined : this.askPast(this.key, this.app.at);
    setText(this.parts.title, part.key);
    if (this.tab === "who") {
      replace(facts);
      return replace(body, who(part.users));
    }
    const value = part.value;
    if (!value) {
      if (part.note || this.recalled === this.key) {
        if (part.note) { replace(facts); replace(body, el("p", { class: "muted" }, part.note)); }
        return;
      }
      this.recalled = this.key;
      return this.askPast(this.key, null);
    }
    this.asked_ = null;
    const rows = [["Per second", number(part.rate)], ["Received here", number(part.count)], ["Age", age(value.age)],
      ["Encoding", value.encoding], ["Bytes", `${number(value.length)}${value.shown < value.length ? `, the first ${number(value.shown)} are shown` : ""}`],
      ["Timestamp", value.timestamp ? el("span", { title: value.timestamp }, stamp(value.timestamp)) : "none"],
      ["Source", value.source ? el("span", { title: value.source }, value.source.replace(/^(\w{8})\w*/, "$1…")) : "not told"],
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

function iso(seconds) {
  return new Date(seconds * 1000).toISOString();
}

/** The tables that samples of a key go into. */
function lineage(part) {
  if (!part) return el("p", { class: "muted" }, "Asking the pipelines …");
  if (part.denied) return el("p", { class: "bad" }, `Not allowed: ${part.denied}`);
  if (!part.lineage.length) return el("p", { class: "muted" }, part.pipelines.length ? "No table of a pipeline is made of this key." : "No pipeline tells of itself.");
  return el("ul", { class: "plain" }, part.lineage.map(([pipeline, table, level, kind]) => el("li", {},
    el("a", { href: href("pipelines", `${pipeline}/${table}`) }, table), el("span", { class: "muted" }, `  ${level}, ${kind}, pipeline ${pipeline}`))));
}

/** Publishing a value by hand: nothing happens before it is confirmed. */
function putForm(key) {
  const encoding = el("select", { id: "put-encoding" }, ["application/json", "text/plain", "zenoh/bytes"].map((name) => el("option", {}, name)));
  const text = el("textarea", { id: "put-payload", class: "mono", rows: 4, spellcheck: "false", placeholder: "{\"temp\": 41}" });
  const note = el("p", { class: "muted", role: "status" });
  const confirm = el("button", { type: "submit" }, "Put …");
  let sure = false;
  const reset = () => { sure = false; setText(confirm, "Put …"); };
  text.addEventListener("input", reset);
  return el("form", { onsubmit: async (event) => {
    event.preventDefault();
    if (!sure) {
      sure = true;
      setText(confirm, "Publish it now");
      return setText(note, `${new TextEncoder().encode(text.value).length} bytes of ${encoding.value} go to every subscriber of ${key}.`);
    }
    reset();
    try {
      const told = await post("put", { key, payload: text.value, encoding: encoding.value });
      setText(note, `● published ${counted(told.length, "byte")} on ${told.key}`);
    } catch (error) { setText(note, `✗ ${error.message}`); }
  } }, el("div", { class: "tools" }, el("label", { for: "put-encoding" }, "Encoding"), encoding), el("label", { for: "put-payload", class: "quiet" }, "Payload"), text,
  el("div", { class: "tools" }, confirm), note);
}
