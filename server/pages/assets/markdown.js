// Markdown as blocks and as nodes (GitHub's dialect, without HTML: tags stay text), with display maths. A text that grows
// is drawn again only from the block that changed.
import {copy_text, h, icon} from "./dom.js";
import {highlight} from "./highlight.js";
import {inline} from "./inline.js";
import {maths} from "./maths.js";

const kMaxDepth = 12;  // quotes and lists within each other; deeper ones are text
const kFence = /^( *)(`{3,}|~{3,}) *([^\n`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?: +(.*))?$/;
const kRule = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const kMarker = /^( *)([-*+]|\d{1,9}[.)])( +(?=\S)|[ \t]*$)/;
const kDelimiterRow = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;
const kEnvironment = /^ *\\begin\{((?:equation|align|gather|alignat|multline|cases|matrix|pmatrix|bmatrix)\*?)\}/;

const is_blank = (line) => /^\s*$/.test(line);
const indent_of = (line) => /^ */.exec(line)[0].length;

function begins_table(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && kDelimiterRow.test(lines[at + 1]) &&
    cells(lines[at]).length === cells(lines[at + 1]).length;
}

// Whether the line ends a paragraph before it.
function begins_block(lines, at) {
  const line = lines[at];
  const marker = kMarker.exec(line);
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || /^ {0,3}>/.test(line) || /^ *(?:\$\$|\\\[)/.test(line) ||
    kEnvironment.test(line) || begins_table(lines, at) || (marker !== null && marker[3].length > 0 && (!/\d/.test(marker[2]) || /^1[.)]/.test(marker[2])));
}

function cells(line) {
  const found = [""];
  let in_code = false;
  const text = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  for (let at = 0; at < text.length; ++at) {
    if (text[at] === "\\" && text[at + 1] === "|") {
      found[found.length - 1] += "|";
      ++at;
    } else if (text[at] === "|" && !in_code) {
      found.push("");
    } else {
      if (text[at] === "`") in_code = !in_code && text.indexOf("`", at + 1) > 0;
      found[found.length - 1] += text[at];
    }
  }
  return found.map((cell) => cell.trim());
}

function read_fence(lines, at) {
  const [, indent, mark, info] = kFence.exec(lines[at]);
  const closes = new RegExp(`^ *\\${mark[0]}{${mark.length},} *$`);
  const body = [];
  let end = at + 1;
  for (; end < lines.length && !closes.test(lines[end]); ++end) {
    body.push(lines[end].slice(Math.min(indent.length, indent_of(lines[end]))));
  }
  return [{type: "code", language: info.trim().split(/[\s{]/)[0], text: body.join("\n")}, Math.min(lines.length, end + 1)];
}

// $$ ... $$, \[ ... \] or an environment on lines of its own; null: it's a paragraph after all.
function read_maths(lines, at) {
  const environment = kEnvironment.exec(lines[at]);
  const open = environment ? environment[0] : lines[at].trim().slice(0, 2);
  const close = environment ? `\\end{${environment[1]}}` : open === "$$" ? "$$" : "\\]";
  let text = environment ? lines[at] : lines[at].trim().slice(2);
  for (let end = at; end < lines.length && !(end > at && is_blank(lines[end])); ++end) {
    if (end > at) text += `\n${lines[end]}`;
    const closing = text.indexOf(close);
    if (closing < 0) continue;
    if (!is_blank(text.slice(closing + close.length))) return null;
    return [{type: "maths", source: (environment ? text : text.slice(0, closing)).trim()}, end + 1];
  }
  return null;
}

function read_quote(lines, at) {
  const inner = [];
  let end = at;
  for (; end < lines.length; ++end) {
    if (/^ {0,3}>/.test(lines[end])) inner.push(lines[end].replace(/^ {0,3}> ?/, ""));
    else if (is_blank(lines[end]) || begins_block(lines, end)) break;
    else inner.push(lines[end]);
  }
  return [{type: "quote", lines: inner}, end];
}

function read_list(lines, at) {
  const [, first_indent, first_mark] = kMarker.exec(lines[at]);
  const kind = /\d/.test(first_mark) ? first_mark.at(-1) : first_mark;
  const list = {type: "list", ordered: /\d/.test(first_mark), start: parseInt(first_mark, 10), items: [], loose: false};
  let end = at;
  let offset = 0;
  let blank = false;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    const marker = kMarker.exec(line);
    if (is_blank(line)) {
      blank = true;
      list.items.at(-1).push("");
      continue;
    }
    if (list.items.length > 0 && indent_of(line) >= offset) {
      list.items.at(-1).push(line.slice(offset));
    } else if (marker && (/\d/.test(marker[2]) ? marker[2].at(-1) : marker[2]) === kind && !kRule.test(line) &&
               (list.items.length === 0 || marker[1].length < first_indent.length + 2 || marker[1].length < offset)) {
      if (blank) list.loose = true;
      offset = marker[1].length + marker[2].length + (marker[3].length > 4 || marker[3].length === 0 ? 1 : marker[3].length);
      list.items.push([line.slice(offset)]);
    } else if (!blank && !begins_block(lines, end)) {
      list.items.at(-1).push(line.trimStart());
    } else {
      break;
    }
    blank = false;
  }
  while (end > at && is_blank(lines[end - 1])) --end;
  for (const item of list.items) {
    while (item.length > 1 && is_blank(item.at(-1))) item.pop();
  }
  return [list, end];
}

function read_table(lines, at) {
  const align = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  const table = {type: "table", align, head: cells(lines[at]), rows: []};
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|") && !is_blank(lines[end]); ++end) table.rows.push(cells(lines[end]));
  return [table, end];
}

function read_paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !is_blank(lines[end]) && !begins_block(lines, end) && !/^ {0,3}=+ *$/.test(lines[end])) ++end;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join("\n").trimEnd();
  if (end < lines.length && /^ {0,3}=+ *$/.test(lines[end])) return [{type: "heading", level: 1, text}, end + 1];
  return [{type: "paragraph", text}, end];
}

function read_block(lines, at, depth) {
  const line = lines[at];
  if (kFence.test(line)) return read_fence(lines, at);
  const heading = kHeading.exec(line);
  if (heading) return [{type: "heading", level: heading[1].length, text: (heading[2] ?? "").trim().replace(/ #{1,6}$/, "")}, at + 1];
  if (kRule.test(line)) return [{type: "rule"}, at + 1];
  if (/^ *(?:\$\$|\\\[)/.test(line) || kEnvironment.test(line)) {
    const found = read_maths(lines, at);
    if (found) return found;
  }
  if (depth < kMaxDepth && /^ {0,3}>/.test(line)) return read_quote(lines, at);
  if (depth < kMaxDepth && kMarker.test(line)) return read_list(lines, at);
  if (begins_table(lines, at)) return read_table(lines, at);
  return read_paragraph(lines, at);
}

// The blocks of these lines, each with the lines that it was made of.
export function blocks_of(lines, depth = 0) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (is_blank(lines[at])) {
      ++at;
      continue;
    }
    const [block, end] = read_block(lines, at, depth);
    block.raw = lines.slice(at, end).join("\n");
    blocks.push(block);
    at = end;
  }
  return blocks;
}

export function code_block(text, language, label = language) {
  const copy = h("button.quiet.small", {type: "button", "aria-label": "Copy code", title: "Copy code"}, icon("copy"));
  copy.addEventListener("click", () => copy_text(text, copy));
  return h("div.code", {}, h("div.code-head", {}, h("span", {}, label || "text"), copy),
    h("pre", {tabIndex: 0}, h("code", {}, highlight(text, language.toLowerCase()))));
}

function list_item(lines, loose, depth) {
  const task = /^\[([ xX])\] /.exec(lines[0]);
  if (task) lines = [lines[0].slice(4), ...lines.slice(1)];
  const item = h(task ? "li.task" : "li");
  if (task) item.append(h("input", {type: "checkbox", checked: task[1] !== " ", disabled: true}));
  for (const block of blocks_of(lines, depth)) {
    if (block.type === "paragraph" && !loose) item.append(...inline(block.text));
    else item.append(draw(block, depth));
  }
  return item;
}

function draw_table(table) {
  const cell = (tag, text, at) => h(`${tag}.${table.align[at] ?? "left"}`, {}, inline(text));
  return h("div.table", {tabIndex: 0}, h("table", {},
    h("thead", {}, h("tr", {}, table.head.map((text, at) => cell("th", text, at)))),
    h("tbody", {}, table.rows.map((row) => h("tr", {}, table.head.map((_, at) => cell("td", row[at] ?? "", at)))))));
}

function draw(block, depth = 0) {
  switch (block.type) {
    case "code":
      return code_block(block.text, block.language);
    case "heading":
      return h(`h${Math.min(6, block.level + 1)}`, {}, inline(block.text));
    case "rule":
      return h("hr");
    case "maths":
      return maths(block.source, true);
    case "quote":
      return h("blockquote", {}, blocks_of(block.lines, depth + 1).map((inner) => draw(inner, depth + 1)));
    case "list": {
      const loose = block.loose || block.items.some((item) => item.some((line, at) => line === "" && at > 0 && item[at + 1] !== undefined && !kMarker.test(item[at + 1])));
      const list = h(block.ordered ? "ol" : "ul", {}, block.items.map((item) => list_item(item, loose, depth + 1)));
      if (block.ordered && block.start !== 1) list.start = block.start;
      return list;
    }
    case "table":
      return draw_table(block);
    default:
      return h("p", {}, inline(block.text));
  }
}

// An element that shows a text which may grow.
export class MarkdownView {
  constructor() {
    this.element = h("div.markdown");
    this.shown = [];  // what each child was made of
  }

  update(text) {
    const blocks = blocks_of(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"));
    let same = 0;
    while (same < blocks.length && blocks[same].raw === this.shown[same]) ++same;
    while (this.element.childNodes.length > same) this.element.lastChild.remove();
    for (const block of blocks.slice(same)) this.element.append(draw(block));
    this.shown = blocks.map((block) => block.raw);
  }
}
