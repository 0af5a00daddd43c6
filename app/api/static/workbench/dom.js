// @ts-check
/** Elements of the page: find, make and fill them. Texts enter as text, never as markup. */

/** @param {string} id @returns {any} the element with this id */
export const $ = (id) => document.getElementById(id);

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * Make an element.
 * @param {string} tag a tag name, with classes after dots
 * @param {Record<string, any>} attributes attributes; `on…` for listeners, `style` for custom properties
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const all = classes.length > 0 ? { ...attributes, class: classes.join(" ") } : attributes;
  return assemble(document.createElement(name), all, children);
}

/**
 * Make a part of a drawing.
 * @param {string} name @param {Record<string, any>} attributes @param {...Child} children
 * @returns {any}
 */
export function svg(name, attributes, ...children) {
  return assemble(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/** @param {any} element @param {Record<string, any>} attributes @param {Child[]} children */
function assemble(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, set] of Object.entries(value)) element.style.setProperty(name, set);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...present(children));
  return element;
}

/** @param {Child[]} children @returns {any[]} those that are not empty */
const present = (children) => children.filter((child) => child != null && child !== false);

/** Replace the content of an element. @param {string} id @param {...Child} children */
export const fill = (id, ...children) => $(id).replaceChildren(...present(children));

/**
 * A table that scrolls by itself where it is too wide.
 * @param {string} tag `table`, with classes after dots
 * @param {{label: string, caption: string}} names for those who cannot see it
 * @param {string[]} heads of the columns; empty for one without @param {any[]} rows
 */
export const scrollingTable = (tag, { label, caption }, heads, rows) =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": label },
    h(
      tag,
      {},
      h("caption.unseen", {}, caption),
      h("thead", {}, h("tr", {}, ...heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))),
      h("tbody", {}, ...rows.map((row) => headed(heads, row))),
    ),
  );

/**
 * A row whose cells know their heads, which stand before them where rows are stacked.
 * @param {string[]} heads @param {any} row
 */
export function headed(heads, row) {
  [...row.children].forEach((cell, i) => (cell.dataset.head = heads[i]));
  return row;
}

/** Let the reader keep a file. @param {Blob} content @param {string} name */
export function download(content, name) {
  const link = h("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Text with `code` between backticks. @param {string} text */
export const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/**
 * Runs `work` when it was not called for `ms`, unless it is cancelled before.
 * @param {Function} work @param {number} ms @returns {(() => void) & {cancel: () => void}}
 */
export function debounce(work, ms) {
  let timer = 0;
  const cancel = () => clearTimeout(timer);
  const call = () => {
    cancel();
    timer = setTimeout(work, ms);
  };
  return Object.assign(call, { cancel });
}
