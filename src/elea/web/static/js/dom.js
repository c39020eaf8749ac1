// Elements made of plain calls. Text becomes text nodes only: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [props] attributes; `on...` are listeners; false and null are left out
 * @param {...(Node|string|number|null|false)} children
 */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what is in a node, if it would look otherwise: text that somebody marks stays marked. */
export function replace(node, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  const same = node.childNodes.length === next.childNodes.length
    && [...next.childNodes].every((child, i) => child.isEqualNode(node.childNodes[i]))
    && !next.querySelector?.("button, a, input");
  if (!same) node.replaceChildren(next);
}

/** Set a text if it is another one. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
