// The events of a trace file, and the laws of them.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tern::test {

constexpr double kHostProcess = 1;
constexpr double kDeviceProcess = 2;

struct TraceEvent {
  std::string name, category;
  double process = 0, row = 0;
  double begin = 0, seconds = 0;  // microseconds, as the file has them
  io::Json arguments;

  [[nodiscard]] double end() const { return begin + seconds; }
};

inline std::vector<TraceEvent> trace_events(const io::Json& trace) {
  std::vector<TraceEvent> out;
  for (const io::Json& event : trace["traceEvents"]) {
    if (event["ph"].text() != "X") continue;
    out.push_back({event["name"].text(), event["cat"].text(), event["pid"].get<double>(), event["tid"].get<double>(),
                   event["ts"].get<double>(), event["dur"].get<double>(), event["args"]});
  }
  return out;
}

// The first event that overlaps another of its row without lying in it; "": each row is a tree, as both viewers need
// it.
inline std::string badly_nested(std::vector<TraceEvent> events) {
  constexpr double kRounding = 0.002;  // of times that are told to 0.001
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.seconds > b.seconds;
  });
  std::map<std::pair<double, double>, std::vector<TraceEvent>> open;
  for (const TraceEvent& event : events) {
    auto& row = open[{event.process, event.row}];
    while (!row.empty() && row.back().end() <= event.begin + kRounding) row.pop_back();
    if (!row.empty() && event.end() > row.back().end() + kRounding) {
      return event.name + " begins in " + row.back().name + " and ends after it";
    }
    row.push_back(event);
  }
  return {};
}

// Those of a device that lie in `step`, but for `slack` microseconds of two clocks.
inline std::vector<TraceEvent> device_events_in(const std::vector<TraceEvent>& events, const TraceEvent& step,
                                                double slack = 1) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& event : events) {
    if (event.process == kDeviceProcess && event.begin >= step.begin - slack && event.end() <= step.end() + slack) {
      out.push_back(event);
    }
  }
  return out;
}

// The busiest row's time.
inline double busiest_row(const std::vector<TraceEvent>& events) {
  std::map<double, double> sums;
  double most = 0;
  for (const TraceEvent& event : events) most = std::max(most, sums[event.row] += event.seconds);
  return most;
}

}  // namespace tern::test
