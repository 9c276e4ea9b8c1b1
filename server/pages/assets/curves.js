// Curves over steps or time, of one run or of several, in SVG.
import {h, svg} from "./dom.js";

const kHeight = 210;
const kLeft = 58;
const kBottom = 22;
const kTop = 10;
const kRight = 8;
const kMostPoints = 800;  // of one line: more than a screen can show

// Round numbers that span lo..hi in about `count` steps.
export function ticks(lo, hi, count = 4) {
  if (!(hi > lo)) {
    const half = Math.abs(lo) > 0 ? Math.abs(lo) / 2 : 1;
    [lo, hi] = [lo - half, hi + half];
  }
  const raw = (hi - lo) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999) ?? 10 * power;
  const found = [];
  const first = Math.floor(lo / step + 1e-9);
  const last = Math.ceil(hi / step - 1e-9);
  for (let at = first; at <= last; ++at) found.push(at * step);
  return found;
}

// Four digits at most: 1.2345 is 1.234, 0.0001 is 1e-4, 12345 is 12.3k.
export function short(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.001) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(4)));
}

// An exponential mean, as TensorBoard's: it's begun without a bias to zero.
export function smoothed(points, weight) {
  if (!(weight > 0)) return points;
  let mean = 0;
  let share = 0;
  return points.map(([x, y]) => {
    mean = mean * weight + y * (1 - weight);
    share = share * weight + (1 - weight);
    return [x, mean / share];
  });
}

// Means of neighbours, where there are more points than can be seen.
export function thinned(points, most = kMostPoints) {
  if (points.length <= most) return points;
  const size = Math.ceil(points.length / most);
  const found = [];
  for (let at = 0; at < points.length; at += size) {
    const part = points.slice(at, at + size);
    found.push([part.at(-1)[0], part.reduce((sum, [, y]) => sum + y, 0) / part.length]);
  }
  return found;
}

export class Curves {
  constructor(title) {
    this.title = title;
    this.series = [];
    this.at = null;  // the x that the pointer is over
    this.legend = h("div.legend");
    this.holder = h("div.plot");
    this.element = h("figure.card", {}, h("figcaption", {}, h("h2", {}, title), this.legend), this.holder);
    this.holder.addEventListener("pointermove", (event) => this.point_at(event));
    this.holder.addEventListener("pointerleave", () => this.point_at(null));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  // series: [{name, colour (1 on), dashed, points: [[x, y]] by rising x}]; x: {format}; smooth: 0 to 1
  update(series, x, smooth = 0) {
    this.series = series.map((one) => ({...one, raw: thinned(one.points), points: thinned(smoothed(one.points, one.dashed ? 0 : smooth))}));
    this.x = x;
    this.smooth = smooth;
    this.draw();
  }

  point_at(event) {
    this.at = null;
    if (event && this.range) {
      const {left, width} = this.holder.getBoundingClientRect();
      const share = (event.clientX - left - kLeft) / (width - kLeft - kRight);
      if (share >= 0 && share <= 1) this.at = this.range[0] + share * (this.range[1] - this.range[0]);
    }
    this.draw();
  }

  draw() {
    const width = this.holder.clientWidth;
    if (width < 80 || !this.x) return;
    const picture = svg("svg", {viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight, role: "img", "aria-label": this.words()});
    const all = this.series.flatMap(({points}) => points);
    if (all.length === 0) {
      this.range = null;
      picture.append(svg("text", {x: width / 2, y: kHeight / 2, class: "nothing", "text-anchor": "middle"}, "Nothing yet"));
    } else {
      this.draw_lines(picture, width, all);
    }
    this.holder.replaceChildren(picture);
    this.draw_legend();
  }

  draw_lines(picture, width, all) {
    const xs = all.map(([x]) => x);
    const ys = all.map(([, y]) => y);
    const [begin, end] = [Math.min(...xs), Math.max(...xs)];
    this.range = begin < end ? [begin, end] : [begin - 1, end + 1];
    let low = Math.min(...ys);
    const high = Math.max(...ys);
    if (low > 0 && low < high * 0.35) low = 0;
    const marks = ticks(low, high);
    const x = (value) => kLeft + ((value - this.range[0]) / (this.range[1] - this.range[0])) * (width - kLeft - kRight);
    // What was smoothed may lie outside of what is shown.
    const share = (value) => Math.min(1, Math.max(0, (value - marks[0]) / (marks.at(-1) - marks[0])));
    const y = (value) => kTop + (1 - share(value)) * (kHeight - kTop - kBottom);
    marks.forEach((mark, index) => {
      picture.append(svg("line", {x1: kLeft, x2: width - kRight, y1: y(mark), y2: y(mark), class: index === 0 ? "axis" : "grid"}));
      picture.append(svg("text", {x: kLeft - 8, y: y(mark) + 4, "text-anchor": "end"}, short(mark)));
    });
    picture.append(svg("text", {x: kLeft, y: kHeight - 5}, this.x.format(this.range[0])));
    picture.append(svg("text", {x: width - kRight, y: kHeight - 5, "text-anchor": "end"}, this.x.format(this.range[1])));
    for (const one of [...this.series].reverse()) {  // the first lies on top
      if (this.smooth > 0 && !one.dashed) picture.append(...this.line(one.raw, `line faint series-${one.colour}`, x, y));
      picture.append(...this.line(one.points, `line series-${one.colour}${one.dashed ? " dashed" : ""}`, x, y));
      if (one.dashed || one.points.length === 1) {
        picture.append(...one.points.map(([px, py]) => svg("circle", {cx: x(px), cy: y(py), r: 2.5, class: `dot series-${one.colour}`})));
      }
    }
    if (this.at === null) return;
    picture.append(svg("line", {x1: x(this.at), x2: x(this.at), y1: kTop, y2: kHeight - kBottom, class: "cursor"}));
    for (const one of this.series) {
      const near = this.near(one);
      if (near) picture.append(svg("circle", {cx: x(near[0]), cy: y(near[1]), r: 3.5, class: `dot series-${one.colour}`}));
    }
  }

  line(points, style, x, y) {
    if (points.length < 2) return [];
    return [svg("path", {d: points.map(([px, py], at) => `${at === 0 ? "M" : "L"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join(""), class: style})];
  }

  // The point under the pointer, else the last.
  near({points}) {
    if (this.at === null) return points.at(-1);
    return points.reduce((best, point) => (best && Math.abs(best[0] - this.at) <= Math.abs(point[0] - this.at) ? best : point), undefined);
  }

  draw_legend() {
    const when = this.at !== null && this.x ? h("span.muted", {}, this.x.format(this.at)) : null;
    this.legend.replaceChildren(...[when, ...this.series.map((one) => {
      const near = this.near(one);
      return h("span", {title: one.title ?? one.name}, h(`i.swatch.series-${one.colour}${one.dashed ? ".dashed" : ""}`), `${one.name} `, h("b", {}, near ? short(near[1]) : "\u2013"));
    })].filter(Boolean));
  }

  words() {
    const parts = this.series.map((one) => `${one.name} ${one.points.length > 0 ? short(one.points.at(-1)[1]) : "unknown"}`);
    return `${this.title}: ${parts.join(", ") || "nothing yet"}`;
  }
}
