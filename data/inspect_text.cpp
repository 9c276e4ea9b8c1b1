// An inspection for terminals and for machines.
#include <algorithm>

#include "base/strings.h"
#include "data/inspect.h"
#include "data/reader.h"

namespace tern::data {
namespace {

std::string percent(double share) { return cat(fixed(100 * share, 1), "%"); }

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void append_remarks(std::string& out, std::string_view title, std::uint64_t count, const std::vector<Remark>& remarks) {
  if (count == 0) return;
  out += cat(title, ": ", count, "\n");
  for (const auto& one : remarks) out += cat("  ", one.place, ": ", one.what, "\n");
  if (count > remarks.size()) out += cat("  and ", count - remarks.size(), " more\n");
}

std::string padded(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

void append_bars(std::string& out, const std::vector<Bin>& bins, std::size_t width) {
  std::uint64_t most = 1;
  std::size_t label = 0;
  std::size_t count = 0;
  for (const auto& bin : bins) {
    most = std::max(most, bin.samples);
    label = std::max(label, cat(bin.from, "-", bin.to - 1).size());
    count = std::max(count, cat(bin.samples).size());
  }
  const std::size_t room = std::max<std::size_t>(8, width > label + count + 4 ? width - label - count - 4 : 0);
  for (const auto& bin : bins) {
    // Eighths of a block: a bin of one sample among thousands still shows.
    const auto eighths = static_cast<std::size_t>((bin.samples * room * 8 + most - 1) / most);
    static constexpr std::string_view kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    out += cat(padded(cat(bin.from, "-", bin.to - 1), label), "  ", padded(cat(bin.samples), count), " ");
    for (std::size_t i = 0; i < eighths / 8; ++i) out += "█";
    out += kParts[eighths % 8];
    out += '\n';
  }
}

void append_field(std::string& out, std::string_view key, std::string_view value) {
  if (out.back() != '{' && out.back() != '[') out += ", ";
  if (!key.empty()) {
    append_json_string(out, key);
    out += ": ";
  }
  out += value;
}

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string remarks_json(const std::vector<Remark>& remarks) {
  std::string out = "[";
  for (const auto& one : remarks) {
    append_field(out, "",
                 cat("{\"sample\": ", one.sample, ", \"place\": ", json_text(one.place),
                     ", \"what\": ", json_text(one.what), "}"));
  }
  return out + "]";
}

std::string report_json(const DatasetReport& report) {
  const RowCounts& counts = report.counts;
  std::string out = "{";
  append_field(out, "dataset", json_text(report.spec));
  append_field(out, "rows", cat(counts.rows));
  append_field(out, "bad", cat(counts.bad));
  append_field(out, "too_long", cat(counts.too_long));
  append_field(out, "truncated", cat(counts.truncated));
  append_field(out, "split_rows", cat(counts.split_rows));
  append_field(out, "split_turns", cat(counts.split_turns));
  append_field(out, "unsupervised", cat(counts.unsupervised));
  append_field(out, "samples", cat(report.samples));
  std::string errors = "[";
  for (const auto& line : counts.first_errors) append_field(errors, "", json_text(line));
  append_field(out, "first_errors", errors + "]");
  return out + "}";
}

std::string sample_json(const ShownSample& sample) {
  std::string out = cat("{\"sample\": ", sample.sample, ", \"place\": ", json_text(sample.place), ", \"tokens\": [");
  for (const auto& token : sample.tokens) {
    append_field(out, "",
                 cat("{\"id\": ", token.id, ", \"text\": ", json_text(token.text), ", \"piece\": ",
                     json_text(token.piece), ", \"weight\": ", token.weight, ", \"special\": ", token.special, "}"));
  }
  return out + "]}";
}

}  // namespace

std::string to_text(const Inspection& it, std::size_t width) {
  std::string out;
  for (const auto& report : it.reports) out += cat(report.line(), "\n");
  if (it.samples == 0) return out + "no sample is left\n";
  out += cat("samples ", it.samples, ", tokens ", it.tokens, ", supervised ", it.supervised, " (",
             percent(share(it.supervised, it.tokens)), ")\n");
  out += cat("length: shortest ", it.shortest, ", median ", it.p50, ", mean ", fixed(it.mean, 1), ", 90% ", it.p90,
             ", 99% ", it.p99, ", longest ", it.longest, "\n");
  out += cat("packing to ", it.packing_length, ": ", it.packs, " packs, ", percent(it.packing_efficiency), " full\n\n");
  append_bars(out, it.histogram, width);
  out += '\n';
  append_remarks(out, "duplicates", it.duplicates, it.duplicate_rows);
  append_remarks(out, cat("at most ", Inspection::kNearEmpty, " supervised tokens"), it.near_empty, it.near_empty_rows);
  append_remarks(out, "unusually long", it.very_long, it.very_long_rows);
  return out;
}

std::string to_text(const ShownSample& sample, bool colour) {
  static constexpr std::string_view kLearned = "\x1b[32m";
  static constexpr std::string_view kOther = "\x1b[2m";
  static constexpr std::string_view kUnderlined = "\x1b[4m";
  static constexpr std::string_view kPlain = "\x1b[0m";
  std::string out = cat("sample ", sample.sample, " (", sample.place, "), ", sample.tokens.size(), " tokens\n");
  bool open = false;
  for (const auto& token : sample.tokens) {
    const bool learned = token.weight > 0;
    if (!colour) {
      if (learned != open) out += learned ? "⟦" : "⟧";
      open = learned;
    } else {
      out += learned ? kLearned : kOther;
      if (token.special) out += kUnderlined;
    }
    // Foreign text must not drive the terminal: control characters but newline and tab become their pictures.
    for (const char c : token.text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0x7f) {
        out += "\u2421";
      } else if (byte >= 0x20 || c == '\n' || c == '\t') {
        out += c;
      } else {
        out += "\xE2\x90";
        out += static_cast<char>(0x80 + byte);
      }
    }
    if (colour) out += kPlain;
  }
  if (open) out += "⟧";
  return out + "\n";
}

std::string to_json(const Inspection& it, const std::vector<ShownSample>& samples) {
  std::string out = "{";
  std::string reports = "[";
  for (const auto& report : it.reports) append_field(reports, "", report_json(report));
  append_field(out, "datasets", reports + "]");
  append_field(out, "samples", cat(it.samples));
  append_field(out, "tokens", cat(it.tokens));
  append_field(out, "supervised", cat(it.supervised));
  append_field(out, "supervised_share", cat(share(it.supervised, it.tokens)));
  append_field(out, "length",
               cat("{\"min\": ", it.shortest, ", \"p50\": ", it.p50, ", \"mean\": ", it.mean, ", \"p90\": ", it.p90,
                   ", \"p99\": ", it.p99, ", \"max\": ", it.longest, "}"));
  std::string bins = "[";
  for (const auto& bin : it.histogram) {
    append_field(bins, "", cat("{\"from\": ", bin.from, ", \"to\": ", bin.to, ", \"samples\": ", bin.samples, "}"));
  }
  append_field(out, "histogram", bins + "]");
  append_field(out, "packing",
               cat("{\"length\": ", it.packing_length, ", \"packs\": ", it.packs,
                   ", \"efficiency\": ", it.packing_efficiency, "}"));
  append_field(out, "duplicates", cat(it.duplicates));
  append_field(out, "near_empty", cat(it.near_empty));
  append_field(out, "very_long", cat(it.very_long));
  append_field(out, "duplicate_rows", remarks_json(it.duplicate_rows));
  append_field(out, "near_empty_rows", remarks_json(it.near_empty_rows));
  append_field(out, "very_long_rows", remarks_json(it.very_long_rows));
  if (!samples.empty()) {
    std::string shown = "[";
    for (const auto& sample : samples) append_field(shown, "", sample_json(sample));
    append_field(out, "shown", shown + "]");
  }
  return out + "}";
}

}  // namespace tern::data
