// @ts-check
/** The views of the page: one applicant, many applicants, promises, portfolio. The address says which one is shown. */

import { $ } from "./dom.js";

const VIEWS = ["one", "many", "promises", "portfolio"];

/** @returns {string} the view that the address names; the one that is shown where it names none */
function named() {
  const name = location.hash.slice(1);
  return VIEWS.includes(name) ? name : shownView();
}

/** The view that is shown now. */
export const shownView = () => VIEWS.find((name) => !$(`view-${name}`).hidden) ?? VIEWS[0];

/** Show the view that the address names. @param {(name: string) => void} onShow */
export function followViews(onShow) {
  const show = () => {
    const name = named();
    const changed = name !== shownView();
    for (const view of VIEWS) $(`view-${view}`).hidden = view !== name;
    for (const tab of document.querySelectorAll(".tabs a")) {
      if (tab.getAttribute("href") === `#${name}`) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    /** @type {any} */ (document.querySelector(".skip")).hidden = name !== VIEWS[0];
    if (!changed) return;
    scrollTo(0, 0);
    $(`title-${name}`).focus({ preventScroll: true });
    onShow(name);
  };
  addEventListener("hashchange", show);
  show();
}

/** Move the reader to a section. @param {HTMLElement} section */
export function bringUp(section) {
  section.focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  section.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}
