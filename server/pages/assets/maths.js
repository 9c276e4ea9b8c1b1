// Maths by KaTeX, which is loaded when the first formula comes. Until then, and where a formula can't be read, its source
// is shown.
import {h} from "./dom.js";

let loading = null;

function load() {
  loading ??= new Promise((resolve, reject) => {
    document.head.append(h("link", {rel: "stylesheet", href: "/pages/katex/katex.min.css"}));
    document.head.append(h("script", {src: "/pages/katex/katex.js", onload: () => resolve(globalThis.katex), onerror: reject}));
  });
  return loading;
}

// Vectors' arrows have their width as a style attribute too: the same, set by the script, is allowed.
function widths_aside(node) {
  const width = /^width:([\d.]+em)$/.exec(node.attributes?.style ?? "");
  if (width) node.attributes["data-width"] = width[1];
  if (node.attributes) delete node.attributes.style;
  node.children?.forEach(widths_aside);
}

function draw(katex, element, source, display) {
  try {
    // HTML alone: the MathML beside it carries style attributes, which the page's policy forbids. Readers get the source.
    const tree = katex.__renderToDomTree(source, {displayMode: display, output: "html", trust: false, strict: "ignore", maxExpand: 200, maxSize: 50});
    widths_aside(tree);
    const drawn = tree.toNode();
    for (const arrow of drawn.querySelectorAll("[data-width]")) arrow.style.width = arrow.dataset.width;
    element.replaceChildren(drawn);
    element.classList.remove("maths-source");
    element.setAttribute("role", "math");
    element.setAttribute("aria-label", source);
  } catch {
    element.textContent = display ? `$$${source}$$` : `$${source}$`;
  }
}

// An element that shows the formula, at once where KaTeX is there.
export function maths(source, display) {
  const element = h(display ? "div.maths.maths-display.maths-source" : "span.maths.maths-source", {}, source);
  if (globalThis.katex) {
    draw(globalThis.katex, element, source, display);
  } else {
    load().then((katex) => draw(katex, element, source, display), () => {});
  }
  return element;
}
