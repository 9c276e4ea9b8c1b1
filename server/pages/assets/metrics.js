// Prometheus' text format, and what can be said of counters and histograms between two readings.

const kSample = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?\s*$/;
const kLabel = /([A-Za-z_]\w*)="((?:\\.|[^"\\])*)"/g;

function number(text) {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return Number(text);
}

// One reading: its time, and for each name the samples that it has.
export class Reading {
  constructor(text, time) {
    this.time = time;  // ms
    this.samples = new Map();
    for (const line of text.split("\n")) {
      const found = line.startsWith("#") ? null : kSample.exec(line);
      if (!found) continue;
      const labels = {};
      for (const [, key, value] of (found[2] ?? "").matchAll(kLabel)) labels[key] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
      if (!this.samples.has(found[1])) this.samples.set(found[1], []);
      this.samples.get(found[1]).push({labels, value: number(found[3])});
    }
  }

  // The sum over all models and engines; null: the server doesn't have it. Of several names, the first that is there.
  value(...names) {
    for (const name of names) {
      const samples = this.samples.get(name);
      if (samples) return samples.reduce((sum, {value}) => sum + value, 0);
    }
    return null;
  }

  // The mean over them, as for shares.
  mean(...names) {
    const name = names.find((one) => this.samples.has(one));
    return name === undefined ? null : this.value(name) / this.samples.get(name).length;
  }

  // [[label's value, sum], ...]
  by_label(name, label) {
    const sums = new Map();
    for (const {labels, value} of this.samples.get(name) ?? []) sums.set(labels[label], (sums.get(labels[label]) ?? 0) + value);
    return [...sums];
  }

  // The cumulative counts of a histogram's buckets: [[bound, count], ...], by rising bounds.
  buckets(...names) {
    const name = names.find((one) => this.samples.has(`${one}_bucket`));
    return name === undefined ? [] : this.by_label(`${name}_bucket`, "le").map(([le, count]) => [number(le), count]).sort((a, b) => a[0] - b[0]);
  }
}

// What a counter grew by, a second; null where it isn't known or the server began anew.
export function rate(before, now, ...names) {
  const grown = growth(before, now, ...names);
  return grown === null || now.time <= before.time ? null : (grown * 1000) / (now.time - before.time);
}

export function growth(before, now, ...names) {
  const begin = before?.value(...names) ?? null;
  const end = now.value(...names);
  return begin === null || end === null || end < begin ? null : end - begin;
}

// The q-quantile of what came between two readings, linear within a bucket as Prometheus has it; null: nothing came.
export function quantile(before, now, q, ...names) {
  const begin = new Map(before?.buckets(...names) ?? []);
  const counts = now.buckets(...names).map(([bound, count]) => [bound, count - (begin.get(bound) ?? 0)]);
  const total = counts.at(-1)?.[1] ?? 0;
  if (total <= 0 || counts.some(([, count]) => count < 0)) return null;
  const rank = q * total;
  let lower = 0;
  let below = 0;
  for (const [bound, count] of counts) {
    if (count >= rank) {
      if (bound === Infinity) return lower;  // beyond the last bound, more isn't known
      return count === below ? bound : lower + ((bound - lower) * (rank - below)) / (count - below);
    }
    lower = bound;
    below = count;
  }
  return null;
}
