// Every op of a model's own programs against the oracle, each from what the device itself had made before it: finds the
// first kernel that is wrong where no made-up case showed it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "conformance/case.h"
#include "graph/node_probe.h"

namespace tern::conformance {

// A call whose output differs by more than the op's contract allows.
struct ModelFinding {
  std::int64_t call = 0;  // counted over all runs, from 1
  std::string weights;    // the constants that it reads, by name: where in the model it stands
  std::string problem;    // of the worst element
  Case failing;           // for a file that `tern selftest --replay` runs
};

struct ModelTally {
  std::int64_t calls = 0;
  std::int64_t wrong = 0;
  double worst = 0.0;  // largest error as a share of the tolerance
};

class OpChecker : public graph::NodeProbe {
 public:
  void before(const graph::ProbedCall& call) override;
  void after(const graph::ProbedCall& call) override;

  [[nodiscard]] std::int64_t calls() const { return calls_; }
  [[nodiscard]] const std::map<std::uint32_t, ModelTally>& tallies() const { return tallies_; }  // by op
  [[nodiscard]] const std::optional<ModelFinding>& first() const { return first_; }
  [[nodiscard]] std::string table() const;

 private:
  Case case_;
  std::int64_t calls_ = 0;
  std::map<std::uint32_t, ModelTally> tallies_;
  std::optional<ModelFinding> first_;
};

}  // namespace tern::conformance
