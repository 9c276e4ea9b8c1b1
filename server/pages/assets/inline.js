// The inside of a paragraph of Markdown (CommonMark's rules, GitHub's strike-through and bare links, TeX between dollars
// or \( \)) as nodes. Text of a model is hostile: elements are made one by one, HTML stays text, links go to the web or a
// mail address, and no image is fetched.
import {h} from "./dom.js";
import {maths} from "./maths.js";

const kPunctuation = /[\s!-/:-@[-`{-~\u00a1-\u00bf\u2010-\u2027\u3000-\u3003]/;
const kEntities = {amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "\u00a9", mdash: "\u2014",
  ndash: "\u2013", hellip: "\u2026", times: "\u00d7", rarr: "\u2192", larr: "\u2190", le: "\u2264", ge: "\u2265", ne: "\u2260",
  deg: "\u00b0", middot: "\u00b7", bull: "\u2022", laquo: "\u00ab", raquo: "\u00bb", euro: "\u20ac", pi: "\u03c0"};
// Searches give up after so many characters, so that no text takes quadratic time.
const kReach = 4000;
const kMaxDelimiters = 1000;

// The address, if it may be a link.
function safe_address(text) {
  return /^(?:https?:\/\/[^\s/]|mailto:[^\s@]+@)/i.test(text) && !/[\u0000-\u0020\u007f]/.test(text) ? text : null;
}

function link(address, children, title) {
  return h("a", {href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: title || null}, children);
}

// Where the first `]` is that closes the `[` before `from`; -1: nowhere near.
function closing_bracket(text, from) {
  let depth = 1;
  const end = Math.min(text.length, from + kReach);
  for (let at = from; at < end; ++at) {
    if (text[at] === "\\") ++at;
    else if (text[at] === "[") ++depth;
    else if (text[at] === "]" && --depth === 0) return at;
  }
  return -1;
}

class Inline {
  constructor(text, in_link) {
    this.text = text;
    this.in_link = in_link;
    this.at = 0;
    this.items = [];       // {node} or {mark, count, opens, closes}
    this.plain = "";       // text that no item holds yet
    this.delimiters = 0;
    this.unclosed = new Set();  // runs of backticks (their lengths) and \\( \\[ that nothing later closes
  }

  flush() {
    if (this.plain) this.items.push({node: document.createTextNode(this.plain)});
    this.plain = "";
  }

  put(node) {
    this.flush();
    this.items.push({node});
  }

  // Each takes what begins at this.at and returns true, or leaves everything and returns false.
  escape() {
    const next = this.text[this.at + 1];
    if (next === "(" || next === "[") {
      const end = this.unclosed.has(next) ? -1 : this.text.indexOf(next === "(" ? "\\)" : "\\]", this.at + 2);
      if (end < 0) {
        this.unclosed.add(next);
      } else {
        this.put(maths(this.text.slice(this.at + 2, end).trim(), next === "["));
        this.at = end + 2;
        return true;
      }
    }
    if (next === "\n") {
      this.put(h("br"));
      this.at += 2;
      return true;
    }
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    const run = /^`+/.exec(this.text.slice(this.at, this.at + 100))[0];
    let end = this.unclosed.has(run.length) ? -1 : this.at;
    while (end >= 0) {
      end = this.text.indexOf(run, end + run.length);
      if (end < 0 || (this.text[end - 1] !== "`" && this.text[end + run.length] !== "`")) break;
      while (this.text[end] === "`") ++end;
      end -= run.length;
    }
    if (end < 0) {
      this.unclosed.add(run.length);
      this.plain += run;
      this.at += run.length;
      return true;
    }
    let source = this.text.slice(this.at + run.length, end).replaceAll("\n", " ");
    if (source.startsWith(" ") && source.endsWith(" ") && source.trim() !== "") source = source.slice(1, -1);
    this.put(h("code", {}, source));
    this.at = end + run.length;
    return true;
  }

  dollars() {
    const display = this.text[this.at + 1] === "$";
    const begin = this.at + (display ? 2 : 1);
    const mark = display ? "$$" : "$";
    let end = begin;
    do {
      end = this.text.indexOf(mark, end);
      if (end < 0 || end > begin + kReach) return false;
    } while (this.text[end - 1] === "\\" && ++end);
    const source = this.text.slice(begin, end);
    if (source.trim() === "") return false;
    if (!display && (/^\s|\s$/.test(source) || /\d/.test(this.text[end + 1] ?? "") || /\n\s*\n/.test(source))) return false;
    this.put(maths(source.trim(), display));
    this.at = end + mark.length;
    return true;
  }

  bracket(image) {
    const begin = this.at + (image ? 2 : 1);
    const end = closing_bracket(this.text, begin);
    if (end < 0 || this.text[end + 1] !== "(") return false;
    const rest = this.text.slice(end + 2, end + 2 + kReach);
    const target = /^\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))(?:\s+(?:"([^"]*)"|'([^']*)'))?\s*\)/.exec(rest);
    if (!target) return false;
    const address = safe_address((target[1] ?? target[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1"));
    const label = this.text.slice(begin, end);
    if (!address || this.in_link) {
      // What isn't a link that we'd follow is shown as it was written.
      this.plain += this.text.slice(this.at, end + 2 + target[0].length);
    } else {
      this.put(link(address, image ? [label || address] : inline(label, true), target[3] ?? target[4]));
    }
    this.at = end + 2 + target[0].length;
    return true;
  }

  angle() {
    const rest = this.text.slice(this.at, this.at + 2000);
    const address = /^<([a-z][a-z0-9+.-]*:[^\s<>]*)>/i.exec(rest);
    if (address && safe_address(address[1]) && !this.in_link) {
      this.put(link(address[1], [address[1]]));
      this.at += address[0].length;
      return true;
    }
    const line_break = /^<br ?\/?>/i.exec(rest);
    if (line_break) {
      this.put(h("br"));
      this.at += line_break[0].length;
      return true;
    }
    const raised = /^<(su[bp])>([^<>\n]{1,200})<\/\1>/.exec(rest);
    if (!raised) return false;
    this.put(h(raised[1], {}, raised[2]));
    this.at += raised[0].length;
    return true;
  }

  entity() {
    const found = /^&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{2,8}));/.exec(this.text.slice(this.at, this.at + 12));
    if (!found) return false;
    const number = found[1] ? Number(found[1]) : found[2] ? parseInt(found[2], 16) : null;
    const character = number === null ? kEntities[found[3]] : number > 0 && number < 0x110000 ? String.fromCodePoint(number) : "\ufffd";
    if (character === undefined || !Object.hasOwn(kEntities, found[3] ?? "amp")) return false;
    this.plain += character;
    this.at += found[0].length;
    return true;
  }

  bare_link() {
    if (this.in_link || /\w/.test(this.text[this.at - 1] ?? "")) return false;
    const found = /^https?:\/\/[^\s<>"'`|\u3000-\u303f\uff00-\uffef]+/i.exec(this.text.slice(this.at, this.at + 2000));
    if (!found) return false;
    let address = found[0].replace(/[?!.,:;*_~'"]+$/, "");
    while (address.endsWith(")") && address.split(")").length > address.split("(").length) address = address.slice(0, -1);
    if (!safe_address(address)) return false;
    this.put(link(address, [address]));
    this.at += address.length;
    return true;
  }

  delimiter(mark) {
    let end = this.at;
    while (this.text[end] === mark) ++end;
    const count = end - this.at;
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[end] ?? " ";
    const left = !/\s/.test(after) && (!kPunctuation.test(after) || kPunctuation.test(before));
    const right = !/\s/.test(before) && (!kPunctuation.test(before) || kPunctuation.test(after));
    const word = mark === "_";
    this.at = end;
    if (++this.delimiters > kMaxDelimiters || (mark === "~" && count > 2)) {
      this.plain += mark.repeat(count);
      return;
    }
    this.flush();
    this.items.push({mark, count, opens: left && (!word || !right || kPunctuation.test(before)),
      closes: right && (!word || !left || kPunctuation.test(after))});
  }

  scan() {
    const text = this.text;
    while (this.at < text.length) {
      const c = text[this.at];
      let taken = false;
      if (c === "\\") taken = this.escape();
      else if (c === "`") taken = this.code();
      else if (c === "$") taken = this.dollars();
      else if (c === "[") taken = this.bracket(false);
      else if (c === "!" && text[this.at + 1] === "[") taken = this.bracket(true);
      else if (c === "<") taken = this.angle();
      else if (c === "&") taken = this.entity();
      else if (c === "h" || c === "H") taken = this.bare_link();
      else if (c === "*" || c === "_" || c === "~") {
        this.delimiter(c);
        taken = true;
      } else if (c === "\n") {
        this.plain = this.plain.trimEnd();
        this.put(h("br"));
        ++this.at;
        taken = true;
      }
      if (!taken) this.plain += text[this.at++];
    }
    this.flush();
  }

  // The opener of the delimiter at `closer`, or -1.
  opener(closer) {
    const end = this.items[closer];
    for (let at = closer - 1; at >= 0; --at) {
      const item = this.items[at];
      if (item.mark !== end.mark || !item.opens || item.count === 0) continue;
      if (end.mark === "~") {
        if (item.count === end.count) return at;
        continue;
      }
      // "If one of the delimiters can both open and close, their sum must not be a multiple of 3, unless both are."
      if ((item.closes || end.opens) && (item.count + end.count) % 3 === 0 && (item.count % 3 !== 0 || end.count % 3 !== 0)) continue;
      return at;
    }
    return -1;
  }

  emphasise() {
    for (let at = 0; at < this.items.length; ++at) {
      while (this.items[at].mark && this.items[at].closes && this.items[at].count > 0) {
        const opener = this.opener(at);
        if (opener < 0) break;
        const {mark, count} = this.items[opener];
        const used = mark === "~" ? count : count >= 2 && this.items[at].count >= 2 ? 2 : 1;
        const element = h(mark === "~" ? "del" : used === 2 ? "strong" : "em");
        element.append(...this.items.splice(opener + 1, at - opener - 1).map(as_node));
        this.items.splice(opener + 1, 0, {node: element});
        at = opener + 2;
        this.items[opener].count -= used;
        this.items[at].count -= used;
      }
    }
    return this.items.map(as_node);
  }
}

function as_node(item) {
  return item.node ?? document.createTextNode(item.mark.repeat(item.count));
}

// The nodes of a text; in_link: within a link's words, where no further link begins.
export function inline(text, in_link = false) {
  const parser = new Inline(text, in_link);
  parser.scan();
  return parser.emphasise();
}
