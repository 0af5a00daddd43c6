/** Elements of the page: find, make and fill them. Texts enter as text, never as markup. */

export const $ = (id) => document.getElementById(id);

/**
 * Make an element: `h("p.hint", { id: "sum" }, "Of ", h("b", "three"))`; children that are null or false are left out.
 * @param tag a tag name, with classes after dots
 * @param parts attributes, where there are some (`on…` for listeners, `style` for custom properties), then children
 */
export function h(tag, ...parts) {
  const [name, ...classes] = tag.split(".");
  const attributes = parts[0]?.constructor === Object ? parts.shift() : {};
  const all = classes.length > 0 ? { ...attributes, class: classes.join(" ") } : attributes;
  return assemble(document.createElement(name), all, parts);
}

export function svg(name, attributes, ...children) {
  return assemble(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

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

const present = (children) => children.filter((child) => child != null && child !== false);

export const fill = (id, ...children) => $(id).replaceChildren(...present(children));

/** A button that is no part of a form. */
export const button = (words, onclick, attributes = {}) =>
  h("button", { type: "button", onclick, ...attributes }, words);

export const labelled = (label, control) => h("div.field", h("label", { for: control.id }, label), control);

/** Part of a view for specialists only, folded. */
export const forSpecialists = (...children) => h("details.specialists", h("summary", "For specialists"), ...children);

/**
 * A table that scrolls by itself where it is too wide.
 * @param names `label` and `caption` for those who cannot see it; classes, where there are any
 * @param heads of the columns
 * @param rows cells; the first one is the head of its row
 */
export const table = ({ label, caption, classes = "" }, heads, rows) =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: classes },
      h("caption.unseen", caption),
      h("thead", h("tr", ...heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))),
      h("tbody", ...rows.map((cells) => tableRow(heads, cells))),
    ),
  );

/** A row whose cells know their heads, which stand before them where rows are stacked. */
export const tableRow = (heads, [first, ...others]) =>
  h(
    "tr",
    h("th", { scope: "row" }, ...[first].flat()),
    ...others.map((cell, i) => h("td", { "data-head": heads[i + 1] }, ...[cell].flat())),
  );

export function download(content, name) {
  const link = h("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

export function bringUp(section) {
  section.focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  section.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

/** Text with `code` between backticks. */
export const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", part) : part));

/** A function of a module that is fetched when it is called; called again before it is there, it runs once. */
export function later(file, name) {
  let coming = null;
  return (...given) => {
    coming ??= import(`./${file}.js`).then((module) => {
      coming = null;
      return module[name](...given);
    });
    return coming;
  };
}

/** Runs `work` when it was not called for `ms`, unless it is cancelled before. */
export function debounce(work, ms) {
  let timer = 0;
  const cancel = () => clearTimeout(timer);
  const call = () => {
    cancel();
    timer = setTimeout(work, ms);
  };
  return Object.assign(call, { cancel });
}
