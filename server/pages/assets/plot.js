// A line chart in SVG that is drawn again with each reading.
import {h, svg} from "./dom.js";

const kHeight = 170;
const kLeft = 56;
const kBottom = 20;
const kTop = 8;
const kRight = 6;

// A round number at or above `value`, whose quarters are round too.
export function nice_ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? 10 * power;
}

export class Plot {
  // series: [{name, of(point)}]; format(value): with its unit; max: the axis' end where it's known (1 of shares)
  constructor({title, series, format, max = null}) {
    Object.assign(this, {title, series, format, max});
    this.points = [];
    this.at = null;  // the time that the pointer is over
    this.legend = h("div.legend");
    this.holder = h("div.plot");
    this.element = h("figure.card", {}, h("figcaption", {}, h("h2", {}, title), this.legend), this.holder);
    this.holder.addEventListener("pointermove", (event) => this.point_at(event));
    this.holder.addEventListener("pointerleave", () => this.point_at(null));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  // points: [{time, ...}] by rising times; begin and end: what the axis spans
  update(points, begin, end) {
    Object.assign(this, {points, begin, end});
    this.draw();
  }

  point_at(event) {
    if (event) {
      const {left, width} = this.holder.getBoundingClientRect();
      const share = (event.clientX - left - kLeft) / (width - kLeft - kRight);
      this.at = share < 0 || share > 1 ? null : this.begin + share * (this.end - this.begin);
    } else {
      this.at = null;
    }
    this.draw();
  }

  draw() {
    const width = this.holder.clientWidth;
    if (width < 80 || this.begin === undefined) return;
    const values = this.points.flatMap((point) => this.series.map(({of}) => of(point))).filter((value) => value !== null);
    const top = this.max ?? nice_ceiling(Math.max(0, ...values));
    const x = (time) => kLeft + ((time - this.begin) / (this.end - this.begin)) * (width - kLeft - kRight);
    const y = (value) => kTop + (1 - value / top) * (kHeight - kTop - kBottom);
    const picture = svg("svg", {viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight, role: "img", "aria-label": this.words()});
    this.draw_axes(picture, width, values.length > 0 ? top : null, y);
    this.series.forEach(({of}, index) => picture.append(...this.lines(of, index, x, y)));
    const shown = this.shown();
    if (this.at !== null && shown) this.draw_cursor(picture, shown, x, y);
    if (values.length === 0) picture.append(svg("text", {x: (width + kLeft) / 2, y: kHeight / 2 - 6, class: "nothing", "text-anchor": "middle"}, "Nothing yet"));
    this.holder.replaceChildren(picture);
    this.draw_legend(shown);
  }

  draw_axes(picture, width, top, y) {
    // Without a value there's no scale: the base line alone.
    for (const share of top === null ? [] : [0, 0.5, 1]) {
      picture.append(svg("line", {x1: kLeft, x2: width - kRight, y1: y(share * top), y2: y(share * top), class: share === 0 ? "axis" : "grid"}));
      picture.append(svg("text", {x: kLeft - 8, y: y(share * top) + 4, "text-anchor": "end"}, this.format(share * top)));
    }
    if (top === null) picture.append(svg("line", {x1: kLeft, x2: width - kRight, y1: kHeight - kBottom, y2: kHeight - kBottom, class: "axis"}));
    const minutes = Math.round((this.end - this.begin) / 60000);
    picture.append(svg("text", {x: kLeft, y: kHeight - 4}, `${minutes} min ago`));
    picture.append(svg("text", {x: width - kRight, y: kHeight - 4, "text-anchor": "end"}, "now"));
  }

  // One path for each stretch without a gap; a point by itself is a dot.
  lines(of, index, x, y) {
    const paths = [];
    let stretch = [];
    const end = () => {
      const d = stretch.map(([px, py], at) => `${at === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
      if (stretch.length > 1 && index === 0) {
        paths.push(svg("path", {d: `${d}L${stretch.at(-1)[0].toFixed(1)} ${y(0)}L${stretch[0][0].toFixed(1)} ${y(0)}Z`, class: "area"}));
      }
      if (stretch.length > 1) paths.push(svg("path", {d, class: `line series-${index + 1}`}));
      if (stretch.length === 1) paths.push(svg("circle", {cx: stretch[0][0], cy: stretch[0][1], r: 2, class: `dot series-${index + 1}`}));
      stretch = [];
    };
    for (const point of this.points) {
      const value = of(point);
      if (value === null) end();
      else stretch.push([x(point.time), y(Math.min(value, this.max ?? value))]);
    }
    end();
    return paths;
  }

  draw_cursor(picture, point, x, y) {
    picture.append(svg("line", {x1: x(point.time), x2: x(point.time), y1: kTop, y2: kHeight - kBottom, class: "cursor"}));
    this.series.forEach(({of}, index) => {
      const value = of(point);
      if (value !== null) picture.append(svg("circle", {cx: x(point.time), cy: y(value), r: 3.5, class: `dot series-${index + 1}`}));
    });
  }

  // The point under the pointer, else the last.
  shown() {
    if (this.at === null) return this.points.at(-1);
    return this.points.reduce((best, point) => (best && Math.abs(best.time - this.at) <= Math.abs(point.time - this.at) ? best : point), null);
  }

  draw_legend(point) {
    const value_of = (of) => (point && of(point) !== null ? this.format(of(point)) : "\u2013");
    const when = this.at !== null && point ? h("span.muted", {}, new Date(point.time).toLocaleTimeString()) : null;
    this.legend.replaceChildren(...[when, ...this.series.map(({name, of}, index) =>
      h("span", {}, h(`i.swatch.series-${index + 1}`), `${name} `, h("b", {}, value_of(of))))].filter(Boolean));
  }

  words() {
    const last = this.points.at(-1);
    const parts = this.series.map(({name, of}) => `${name} ${last && of(last) !== null ? this.format(of(last)) : "unknown"}`);
    return `${this.title}: ${parts.join(", ")}`;
  }
}
