// Elements, and one rule: what comes from anywhere else is only ever text.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "path", "rect"]);
const HANDLERS = Symbol("handlers");

/** An element with attributes (`onclick` and the like are listeners) and children. */
export function h(name, attributes = {}, ...children) {
  const element = DRAWN.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) listen(element, key.slice(2), value);
    else if (key === "value" && name !== "option") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...shown(children));
  return element;
}

function shown(children) {
  return children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
}

// A listener is looked up when its event comes, so that a tree that is only made to look like a new
// one also behaves like it.
function listen(element, type, handler) {
  element[HANDLERS] ??= new Map();
  if (!element[HANDLERS].has(type)) {
    element.addEventListener(type, (event) => element[HANDLERS].get(type)?.(event));
  }
  element[HANDLERS].set(type, handler);
}

/** Make the children of `target` look like `wanted`, and touch nothing that does already: focus,
 * selection and scrolling survive. `data-key` says which child is which when some come and go;
 * the inside of what has `data-keep` belongs to somebody else. */
export function morph(target, ...wanted) {
  const next = shown(wanted).map((node) => (node instanceof Node ? node : document.createTextNode(node)));
  const keys = new Set(next.map((node) => node.dataset?.key));
  for (const old of [...target.childNodes]) if (old.dataset?.key !== undefined && !keys.has(old.dataset.key)) old.remove();
  next.forEach((node, index) => {
    const old = at(target, index, node);
    if (!old) target.insertBefore(node, target.childNodes[index] ?? null);
    else if (old !== node) become(old, node);
  });
  while (target.childNodes.length > next.length) target.lastChild.remove();
}

/** The child at a place that can become `node`, moved there if it is elsewhere. */
function at(target, index, node) {
  const here = target.childNodes[index];
  if (!here || here === node || isSame(here, node)) return here;
  const key = node.dataset?.key;
  if (key === undefined) {
    if (here.dataset?.key === undefined) here.remove();
    return null;
  }
  for (let other = here.nextSibling; other; other = other.nextSibling) {
    if (isSame(other, node)) {
      if (target.moveBefore) target.moveBefore(other, here);
      else target.insertBefore(other, here);
      return other;
    }
  }
  return null;
}

function isSame(old, node) {
  return old.nodeName === node.nodeName && old.dataset?.key === node.dataset?.key && old.dataset?.keep === node.dataset?.keep;
}

function become(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  if (old.dataset?.keep !== undefined) return;
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
  for (const type of old[HANDLERS]?.keys() ?? []) if (!node[HANDLERS]?.has(type)) old[HANDLERS].set(type, null);
  for (const [type, handler] of node[HANDLERS] ?? []) listen(old, type, handler);
  morph(old, ...node.childNodes);
}
