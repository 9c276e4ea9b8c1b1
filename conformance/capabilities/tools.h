// What the checks of the runtime share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "conformance/capabilities/checks.h"

namespace tern::conformance {

[[nodiscard]] Bytes pattern(std::size_t size, unsigned seed);
// "" where `status` is what it should be, else what it is.
[[nodiscard]] std::string expect(tern_status expected, tern_status status, const std::string& call);
[[nodiscard]] std::string expect_unsupported(tern_status status, const std::string& call);
// The first that isn't "".
[[nodiscard]] std::string first_problem(const std::vector<std::string>& problems);
[[nodiscard]] Bytes fetch(const Bench& bench, tern_plane plane, std::size_t size);
[[nodiscard]] CaseSource plain_source(std::uint32_t op);
// A second handle of the backend that is tested, for opening more of its devices.
[[nodiscard]] std::shared_ptr<const accel::Backend> same_backend(const Bench& bench);

// y = 2 x in fp32, as one op or, where the device takes only graphs, as a graph of it.
class Doubling {
 public:
  static constexpr std::int64_t kCount = 64;
  static constexpr std::uint64_t kBytes = kCount * 4;
  Doubling();
  Doubling(const Doubling&) = delete;
  Doubling& operator=(const Doubling&) = delete;

  [[nodiscard]] const accel::OpDesc& desc() const { return desc_; }
  [[nodiscard]] const tern_graph_desc& graph() const { return graph_; }
  // Arguments of the op, or of the graph.
  [[nodiscard]] std::vector<tern_tensor> tensors(const accel::Device& device, tern_plane x, tern_plane y) const;
  [[nodiscard]] static Bytes input(float from);
  [[nodiscard]] static Bytes output(float from);
  [[nodiscard]] static tern_host_args host_args();

 private:
  accel::OpDesc desc_;
  tern_graph_value values_[2] = {};
  std::int32_t inputs_[3] = {0, -1, -1};
  std::int32_t outputs_[3] = {-1, -1, 1};
  tern_graph_node node_{};
  tern_graph_desc graph_{};
};

}  // namespace tern::conformance
