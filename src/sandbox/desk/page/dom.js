// Elements from data. What comes from outside is only ever set as text or as an attribute of a fixed name.

/** An element with these attributes (a function is a listener, true is a bare attribute) and children. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** The terms and what they stand for, as children of a dl. */
export const facts = (pairs) => pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]);

/** Sets a text only where it differs, so that a selection or a live region is not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
