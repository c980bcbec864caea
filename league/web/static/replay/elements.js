import { SIDES } from "./wording.js";

// Makes an element with properties and children.
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Text parts in the colours of their sides. See `describe`.
export function coloured(parts) {
  return parts.map(([textContent, side]) =>
    side === null ? textContent : element("span", { className: SIDES[side], textContent }),
  );
}
