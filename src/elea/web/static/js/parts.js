// Pieces that several views share.

import { el } from "./dom.js";

/** The command that does the same, to copy. */
export function command(text) {
  const button = el("button", { type: "button", onclick: () => copy(text, button) }, "Copy");
  return el("p", { class: "command" }, "The same on a terminal: ", el("code", {}, text), button);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

/** A text as one argument of bash. What a terminal would act on, or hide, is written escaped. */
export function quoted(text) {
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(text)) {
    const plain = text.replace(/[\\']/g, "\\$&");
    return `$'${plain.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (one) => `\\U${one.codePointAt(0).toString(16).padStart(8, "0")}`)}'`;
  }
  return /^[\w./@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A table with a caption for readers of screens. */
export function table(caption, columns, rows) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", { "aria-label": caption },
      el("thead", {}, el("tr", {}, columns.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { class: columns[i][1] }, cell)))))));
}

/** Tabs over one panel: one tab stop, arrows move. */
export class Tabs {
  /** @param {string[][]} names pairs of id and label */
  constructor(names, panel, told) {
    this.names = names;
    this.panel = panel;
    this.told = told;
    this.tab = names[0][0];
    panel.setAttribute("role", "tabpanel");
    panel.id = "tabpanel";
    panel.tabIndex = 0;
    this.buttons = names.map(([id, label]) => el("button", { type: "button", class: "tab", role: "tab", id: `tab-${id}`,
      "aria-controls": "tabpanel", onclick: () => told(id), onkeydown: (event) => this.walk(event) }, label));
    this.list = el("div", { class: "tabs", role: "tablist", "aria-label": "Parts" }, this.buttons);
  }

  pick(tab) {
    if (!this.names.some(([id]) => id === tab)) tab = this.names[0][0];
    this.tab = tab;
    this.names.forEach(([id], i) => {
      this.buttons[i].setAttribute("aria-selected", String(id === tab));
      this.buttons[i].tabIndex = id === tab ? 0 : -1;
    });
    this.panel.setAttribute("aria-labelledby", `tab-${tab}`);
  }

  walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (this.names.findIndex(([id]) => id === this.tab) + step + this.names.length) % this.names.length;
    this.told(this.names[at][0]);
    this.buttons[at].focus();
  }
}
