// Where the time of a program goes: each step timed alone, summed by op and shape.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/work.h"

namespace tern::graph {

// Shapes of the arguments that decide an op's cost, at their actual counts: the first two inputs and the first output,
// `5x576 1536x576 -> 5x1536`.
[[nodiscard]] std::string shapes_of(const Graph& graph, const Node& node, std::span<const std::int64_t> counts);

struct ProfileRow {
  std::string op;  // "upload" and "download" for copies from and to the host
  std::string shapes;
  std::int64_t calls = 0;
  double seconds = 0;
  Work work;
};

class Profile {
 public:
  // Adds one call of the op, with its actual counts.
  void add(const Graph& graph, const Node& node, std::span<const std::int64_t> counts, const Work& work,
           double seconds);
  void add_copy(const std::string& name, double bytes, double seconds);
  // Adds one run of a whole program: what its steps do not account for is the host's own.
  void add_run(double seconds);
  void clear();

  [[nodiscard]] std::vector<ProfileRow> by_op() const;     // longest first
  [[nodiscard]] std::vector<ProfileRow> by_shape() const;  // longest first
  [[nodiscard]] std::int64_t runs() const { return runs_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  // A table: calls, milliseconds, share, GFLOP/s and GB/s.
  [[nodiscard]] std::string to_text(const std::vector<ProfileRow>& rows) const;

 private:
  std::map<std::string, ProfileRow> rows_;  // by op and shapes
  std::int64_t runs_ = 0;
  double seconds_ = 0;
};

}  // namespace tern::graph
