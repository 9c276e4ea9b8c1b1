// Watches every op of a program's runs, one at a time.
#pragma once

#include <cstdint>
#include <span>

#include "accel/device.h"
#include "graph/graph.h"

namespace tern::graph {

// One op of a run as a probe sees it, the device idle.
struct ProbedCall {
  const Graph& graph;
  const Node& node;
  const accel::DevicePtr& device;
  const accel::Stream& stream;
  // Of the node's arguments in the table's order, weights as stored; rank 0 where one is absent.
  std::span<const tern_tensor> tensors;
  std::span<const bool> packed;          // per argument: the kernel reads it in the device's private layout
  std::span<const std::int64_t> counts;  // actual entries of dynamic dimensions, by slot
};

class NodeProbe {
 public:
  virtual ~NodeProbe() = default;
  virtual void before(const ProbedCall& call) = 0;
  virtual void after(const ProbedCall& call) = 0;
};

}  // namespace tern::graph
