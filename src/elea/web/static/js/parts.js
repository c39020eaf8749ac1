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
