// Elements from names, properties and children. Text becomes text nodes and nothing else: no string is ever read as HTML.

// h("button.quiet", {type: "button", onclick: f, "aria-label": "Copy"}, "Copy", icon("copy"))
export function h(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
    } else if (key in element && !key.includes("-") && key !== "list" && key !== "for") {
      element[key] = value;
    } else {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const kSvg = "http://www.w3.org/2000/svg";

// The same for SVG, whose properties are all attributes.
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(kSvg, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Strokes on a grid of 24.
const kIcons = {
  menu: ["M4 7h16M4 12h16M4 17h16"],
  plus: ["M12 5v14M5 12h14"],
  send: ["M12 19V5M6 11l6-6 6 6"],
  stop: ["M7 7h10v10H7z"],
  copy: ["M9 9h10v11H9z", "M15 9V5H5v11h4"],
  check: ["M5 13l4 4L19 7"],
  edit: ["M4 20h4L19 9l-4-4L4 16z", "M13 7l4 4"],
  retry: ["M20 11a8 8 0 1 0-2.3 6.3", "M20 4v7h-7"],
  trash: ["M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13"],
  sliders: ["M4 8h9M17 8h3M4 16h3M11 16h9", "M15 6v4M9 14v4"],
  image: ["M4 5h16v14H4z", "M4 16l5-5 5 5 3-3 3 3", "M15.5 9.5h.01"],
  sun: ["M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5"],
  close: ["M6 6l12 12M18 6L6 18"],
  chevron: ["M9 6l6 6-6 6"],
  down: ["M12 5v14M6 13l6 6 6-6"],
  gauge: ["M4 18a9 9 0 1 1 16 0", "M12 15l4-5"],
  save: ["M12 4v11M7 10l5 5 5-5M5 20h14"],
};

export function icon(name) {
  const paths = kIcons[name].map((d) => svg("path", {d}));
  return svg("svg", {viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true"}, ...paths);
}

// <button data-icon="menu">: what stands in the HTML gets its icon before the text.
export function fill_icons(root = document) {
  for (const element of root.querySelectorAll("[data-icon]")) element.prepend(icon(element.dataset.icon));
}

// Copies, and says so for a moment in place of the button's icon.
export async function copy_text(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard without TLS on another host: through a selection, as browsers still allow it there.
    const area = h("textarea.offscreen", {value: text, "aria-hidden": "true"});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const shown = button.querySelector(".icon");
  if (!shown || button.dataset.done) return;
  button.dataset.done = "1";
  const done = icon("check");
  shown.replaceWith(done);
  setTimeout(() => {
    done.replaceWith(shown);
    delete button.dataset.done;
  }, 1200);
}
