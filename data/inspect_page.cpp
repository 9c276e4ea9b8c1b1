// An inspection as an SVG and as a page.
#include <algorithm>

#include "base/strings.h"
#include "data/inspect.h"
#include "io/svg.h"

namespace tern::data {
namespace {

using io::escape_markup;

constexpr int kWidth = 720, kHeight = 240, kLeft = 56, kRight = 12, kTop = 12, kBottom = 44;

void draw_bars(io::Svg& svg, const std::vector<Bin>& bins, double scale) {
  const double step = static_cast<double>(kWidth - kLeft - kRight) / static_cast<double>(bins.size());
  const std::size_t every = (bins.size() + 7) / 8;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const double height = static_cast<double>(bins[i].samples) * scale;
    const double x = kLeft + static_cast<double>(i) * step;
    svg.bar(x + 1, kHeight - kBottom - height, std::max(1.0, step - 2), height,
            cat(bins[i].from, " to ", bins[i].to - 1, " tokens: ", bins[i].samples, " samples"));
    if (i % every == 0) svg.text(x, kHeight - kBottom + 16, "middle", cat(bins[i].from));
  }
}

void append_row(std::string& out, std::string_view name, const std::string& value) {
  out += cat("<div><dt>", name, "</dt><dd>", escape_markup(value), "</dd></div>\n");
}

void append_remarks(std::string& out, std::string_view title, std::uint64_t count, const std::vector<Remark>& remarks) {
  if (count == 0) return;
  out += cat("<details><summary>", title, ": ", count, "</summary><ul>\n");
  for (const auto& one : remarks)
    out += cat("<li><code>", escape_markup(one.place), "</code> ", escape_markup(one.what), "</li>\n");
  if (count > remarks.size()) out += cat("<li>and ", count - remarks.size(), " more</li>\n");
  out += "</ul></details>\n";
}

void append_sample(std::string& out, const ShownSample& sample) {
  const auto learned = static_cast<std::uint64_t>(
      std::count_if(sample.tokens.begin(), sample.tokens.end(), [](const ShownToken& t) { return t.weight > 0; }));
  out += cat("<section><h3>Sample ", sample.sample, "</h3><p class=\"note\"><code>", escape_markup(sample.place),
             "</code>, ", sample.tokens.size(), " tokens, ", learned, " learned</p>\n<pre>");
  for (const auto& token : sample.tokens) {
    const std::string_view kind = token.weight > 0 ? "l" : "n";
    // A token that only completes a later one's character still needs a place to point at.
    const std::string text = token.text.empty() ? "·" : escape_markup(token.text);
    out += cat("<span class=\"", kind, token.special ? " s" : "", "\" title=\"", token.id, " ",
               escape_markup(token.piece), ", weight ", token.weight, "\">", text, "</span>");
  }
  out += "</pre></section>\n";
}

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --ground: #ffffff; --panel: #f6f8fa;
  --learned: #c6f0d0; --learned-text: #0b4a1c; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9198a1; --line: #3d444d; --ground: #0d1117;
  --panel: #151b23; --learned: #12522a; --learned-text: #d6ffe2; } }
body { margin: 0 auto; padding: 24px 16px 64px; max-width: 880px; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 8px; } h3 { font-size: 15px; margin: 24px 0 0; }
.note { color: var(--soft); margin: 0 0 8px; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 8px; margin: 16px 0; }
dl div { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-size: 18px; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); } svg line { stroke: var(--line); }
details { margin: 8px 0; } summary { cursor: pointer; } code { font-size: 13px; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px; white-space: pre-wrap;
  overflow-wrap: anywhere; font: 13px/1.7 ui-monospace, monospace; }
.l { background: var(--learned); color: var(--learned-text); } .n { color: var(--soft); }
.s { border-bottom: 2px solid currentColor; } pre span:hover { outline: 1px solid currentColor; }
.key span { padding: 0 6px; border-radius: 3px; margin-right: 8px; }
)";

}  // namespace

std::string to_svg(const Inspection& it) {
  io::Svg svg("samples by length in tokens");
  std::uint64_t most = 1;
  for (const auto& bin : it.histogram) most = std::max(most, bin.samples);
  const double scale = static_cast<double>(kHeight - kTop - kBottom) / static_cast<double>(most);
  const auto step = static_cast<std::uint64_t>(std::max(1.0, io::tick_step(static_cast<double>(most))));
  for (std::uint64_t tick = 0; tick <= most; tick += step) {
    const double y = kHeight - kBottom - static_cast<double>(tick) * scale;
    svg.line({kLeft, y, kWidth - kRight, y}, io::kGridColour);
    svg.text(kLeft - 6, y + 4, "end", cat(tick));
  }
  if (!it.histogram.empty()) draw_bars(svg, it.histogram, scale);
  svg.text((kLeft + kWidth - kRight) / 2.0, kHeight - 6, "middle", "tokens in a sample");
  return svg.finish(kWidth, kHeight, false);
}

std::string to_html(const Inspection& it, const std::vector<ShownSample>& samples) {
  std::string out =
      cat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>Training data</title><style>",
          kStyle, "</style></head><body>\n<h1>Training data</h1>\n");
  for (const auto& report : it.reports) {
    out += cat("<p class=\"note\">", escape_markup(report.line()), "</p>\n");
    for (const auto& line : report.counts.first_errors) {
      out += cat("<p class=\"note\"><code>", escape_markup(line), "</code></p>\n");
    }
  }
  const double learned = it.tokens == 0 ? 0 : static_cast<double>(it.supervised) / static_cast<double>(it.tokens);
  out += "<dl>\n";
  append_row(out, "samples", cat(it.samples));
  append_row(out, "tokens", cat(it.tokens));
  append_row(out, "learned", cat(it.supervised, " (", fixed(100 * learned, 1), "%)"));
  append_row(out, "median length", cat(it.p50));
  append_row(out, "90% and 99%", cat(it.p90, ", ", it.p99));
  append_row(out, "longest", cat(it.longest));
  append_row(out, cat("packs of ", it.packing_length),
             cat(it.packs, ", ", fixed(100 * it.packing_efficiency, 1), "% full"));
  out += "</dl>\n<h2>Lengths</h2>\n";
  out += to_svg(it);
  if (it.duplicates + it.near_empty + it.very_long > 0) out += "<h2>Worth a look</h2>\n";
  append_remarks(out, "duplicates", it.duplicates, it.duplicate_rows);
  append_remarks(out, cat("at most ", Inspection::kNearEmpty, " supervised tokens"), it.near_empty, it.near_empty_rows);
  append_remarks(out, "unusually long", it.very_long, it.very_long_rows);
  if (!samples.empty()) {
    out +=
        "<h2>Samples</h2>\n<p class=\"key\"><span class=\"l\">learned</span><span class=\"n\">not learned</span><span "
        "class=\"n s\">special token</span></p>\n";
    for (const auto& sample : samples) append_sample(out, sample);
  }
  return out + "</body></html>\n";
}

}  // namespace tern::data
