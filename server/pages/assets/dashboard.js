// The dashboard: reads /metrics every two seconds and shows what changes.
import {get_text} from "./api.js";
import {fill_icons, h} from "./dom.js";
import {Reading, growth, quantile, rate} from "./metrics.js";
import {Plot} from "./plot.js";
import {api_key, set_api_key} from "./store.js";

const kInterval = 2000;     // ms between readings
const kSpans = [1, 5, 15];  // minutes that can be shown
const kBack = 10000;        // ms over which rates and quantiles are taken

const kTtft = ["vllm:time_to_first_token_seconds"];
const kItl = ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"];
const kE2e = ["vllm:e2e_request_latency_seconds"];
const kCache = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"];

const by_id = (id) => document.getElementById(id);
const compact = new Intl.NumberFormat("en", {notation: "compact", maximumFractionDigits: 1});
const count = (value) => (value >= 10000 ? compact.format(value) : value >= 100 ? String(Math.round(value)) : String(Number(value.toFixed(1))));
const percent = (value) => `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%`;
// Three digits, in the unit that has some of them before the point.
const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? String(Number(value.toFixed(1))) : String(Number(value.toFixed(2))));
const seconds = (value) => (value === 0 ? "0" : value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`);

const pair = (name, first, second) => [{name: first, of: (point) => point[name][0]}, {name: second, of: (point) => point[name][1]}];
const kPlots = [
  {title: "Tokens per second", format: count, series: pair("tokens", "generated", "of prompts")},
  {title: "Requests", format: count, series: pair("requests", "running", "waiting")},
  {title: "Time to first token", format: seconds, series: pair("ttft", "p50", "p95")},
  {title: "Time between tokens", format: seconds, series: pair("itl", "p50", "p95")},
  {title: "Whole request", format: seconds, series: pair("e2e", "p50", "p95")},
  {title: "Cache", format: percent, max: 1, series: pair("cache", "blocks in use", "prefix hits")},
];

// What the charts show of one reading.
function point_of(before, now) {
  const quantiles = (names) => [quantile(before, now, 0.5, ...names), quantile(before, now, 0.95, ...names)];
  const queries = growth(before, now, "vllm:prefix_cache_queries_total");
  const hits = growth(before, now, "vllm:prefix_cache_hits_total");
  const known = before !== null;
  return {
    time: now.time,
    tokens: [known ? rate(before, now, "vllm:generation_tokens_total") : null, known ? rate(before, now, "vllm:prompt_tokens_total") : null],
    requests: [now.value("vllm:num_requests_running"), now.value("vllm:num_requests_waiting")],
    ttft: known ? quantiles(kTtft) : [null, null],
    itl: known ? quantiles(kItl) : [null, null],
    e2e: known ? quantiles(kE2e) : [null, null],
    cache: [now.mean(...kCache), queries ? (hits ?? 0) / queries : null],
  };
}

class Dashboard {
  constructor() {
    this.readings = [];
    this.points = [];
    this.minutes = 5;
    this.plots = kPlots.map((options) => new Plot(options));
  }

  start() {
    fill_icons();
    by_id("charts").append(...this.plots.map((plot) => plot.element));
    this.draw_spans();
    by_id("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      set_api_key(by_id("key").value.trim());
      this.read();
    });
    this.draw();
    this.poll();
  }

  draw_spans() {
    by_id("span").replaceChildren(...kSpans.map((minutes) => h("button.quiet", {type: "button", "aria-pressed": String(minutes === this.minutes), onclick: () => {
      this.minutes = minutes;
      this.draw_spans();
      this.draw();
    }}, `${minutes} min`)));
  }

  async poll() {
    for (;;) {
      await this.read();
      await new Promise((resolve) => setTimeout(resolve, kInterval));
    }
  }

  async read() {
    try {
      this.take(new Reading(await get_text("/metrics"), Date.now()));
      this.show_state("Live", "");
      by_id("key-form").hidden = true;
    } catch (error) {
      const refused = error.status === 401 || error.status === 403;
      const refusal = api_key() ? "The server refuses this API key." : "This server asks for an API key.";
      this.show_state("Not connected", refused ? refusal : `${error.message} Trying again every ${kInterval / 1000} s.`);
      if (refused && by_id("key-form").hidden) {
        by_id("key-form").hidden = false;
        by_id("key").focus();
      }
    }
    this.draw();
  }

  show_state(state, problem) {
    by_id("state").textContent = state;
    by_id("state").className = problem ? "off" : "live";
    by_id("problem").textContent = problem;
    by_id("problem").hidden = !problem;
  }

  take(reading) {
    const oldest = reading.time - kBack;
    const before = this.readings.find((one) => one.time >= oldest) ?? this.readings.at(-1) ?? null;
    this.points.push(point_of(before, reading));
    this.readings = [...this.readings.filter((one) => one.time >= oldest), reading];
    const first = reading.time - kSpans.at(-1) * 60000;
    this.points = this.points.filter((point) => point.time >= first - kInterval);
  }

  draw() {
    const end = Date.now();
    const begin = end - this.minutes * 60000;
    const points = this.points.filter((point) => point.time >= begin);
    for (const plot of this.plots) plot.update(points, begin, end);
    this.draw_tiles(points.at(-1));
    this.draw_totals(this.readings.at(-1));
  }

  draw_tiles(point) {
    const tile = (name, value, format) => h("div.tile", {}, h("div.muted.small", {}, name),
      h("div.number", {}, value === null || value === undefined ? "\u2013" : format(value)));
    by_id("tiles").replaceChildren(
      tile("Generated tokens/s", point?.tokens[0], count), tile("Prompt tokens/s", point?.tokens[1], count), tile("Running", point?.requests[0], count), tile("Waiting", point?.requests[1], count),
      tile("First token, p95", point?.ttft[1], seconds), tile("Between tokens, p95", point?.itl[1], seconds),
      tile("Cache in use", point?.cache[0], percent), tile("Prefix hits", point?.cache[1], percent));
  }

  draw_totals(reading) {
    const rows = [["Tokens generated", reading?.value("vllm:generation_tokens_total")], ["Tokens of prompts", reading?.value("vllm:prompt_tokens_total")],
      ...(reading?.by_label("vllm:request_success_total", "finished_reason") ?? []).map(([reason, value]) => [`Requests ended: ${reason}`, value]),
      ["Preemptions", reading?.value("vllm:num_preemptions_total")]];
    by_id("totals").replaceChildren(h("h2", {}, "Since the server started"), h("dl", {}, rows.map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value === null || value === undefined ? "\u2013" : value.toLocaleString("en"))))));
  }
}

const dashboard = new Dashboard();
dashboard.start();
