// A strict reader of Prometheus' text format (version 0.0.4), for pages that a server gives: what Prometheus would
// drop, misread or warn of is an error here. https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tern::test {

struct Sample {
  std::string name;  // of a histogram: with _bucket, _sum or _count behind the family's
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct MetricFamily {
  std::string type;  // "counter", "gauge", "histogram"
  std::string help;
  std::vector<Sample> samples;
};

struct Exposition {
  std::map<std::string, MetricFamily> families;
  std::vector<std::string> errors;  // what is wrong, each with its line
};

// Beside the grammar it holds: each family has one HELP with a text and one TYPE, in this order, and all its samples
// behind them; each series is there once; counters are finite, never below zero, and end in _total as nothing else
// does; a histogram's buckets rise with their bounds, and the last one, of +Inf, is its count. The last four lines are
// what `promtool check metrics` looks for; its wish that a name has no colon is left out, as vLLM's names have one.
[[nodiscard]] Exposition read_exposition(std::string_view page);

// What Prometheus' rate() would take for a restart: series of counters (and counts of histograms) of `before` that are
// missing or smaller in `after`.
[[nodiscard]] std::vector<std::string> counters_that_fell(const Exposition& before, const Exposition& after);

}  // namespace tern::test
