// Tensors go with their owner, and a lack of memory says who holds what.
#include "graph/tensor_scope.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

const TensorDesc kMatrix = make_desc(TERN_F32, {64, 64});  // 16 KiB

TEST(TensorScope, ItsTensorsGoWithIt) {
  const auto store = std::make_shared<graph::TensorStore>(open_sim());
  store->create("weight", kMatrix);
  const std::uint64_t before = store->bytes();
  {
    graph::TensorScope scope(store, "optimizer");
    scope.create("m", kMatrix);
    scope.create("v", kMatrix);
    scope.create_on_host("offloaded", kMatrix);
    EXPECT_EQ(scope.bytes(), 2 * before);
    EXPECT_EQ(store->bytes_by_owner(),
              (std::map<std::string, std::uint64_t>{{"model", before}, {"optimizer", 2 * before}}));
  }
  EXPECT_EQ(store->bytes(), before);
  EXPECT_EQ(store->host_bytes(), 0U);
  EXPECT_EQ(store->find("m"), nullptr);
}

// Of what is held in parts, nothing stays and nothing counts twice.
TEST(TensorScope, PartsGoWithTheWhole) {
  const auto store = std::make_shared<graph::TensorStore>(open_sim({{"TERN_SIM_LARGEST", "8192"}}));
  std::optional<graph::TensorScope> scope;
  scope.emplace(store, "optimizer");
  scope->create("m", kMatrix);
  EXPECT_EQ(scope->bytes(), store->bytes());
  EXPECT_GE(store->bytes(), total_bytes(kMatrix));
  EXPECT_NE(store->find("m[0:32]"), nullptr);
  scope.reset();
  EXPECT_EQ(store->bytes(), 0U);
  EXPECT_EQ(store->find("m[0:32]"), nullptr);
}

// Nothing stays of what could not be made whole, and it can be made again.
TEST(TensorScope, AFailureInTheMiddleLeavesNothing) {
  for (const char* fault : {"oom@2", "host@2"}) {
    const auto device = open_sim({{"TERN_SIM_LARGEST", "8192"}, {"TERN_SIM_FAULT", fault}});
    const auto store = std::make_shared<graph::TensorStore>(device);
    graph::TensorScope scope(store, "optimizer");
    const auto create = [&] {
      if (fault[0] == 'o') return scope.create("m", kMatrix);
      scope.create_on_host("m", kMatrix);
    };
    EXPECT_NE(failure_of(create), "") << fault;
    EXPECT_EQ(store->bytes() + store->host_bytes(), 0U) << fault;
    EXPECT_EQ(store->find("m"), nullptr) << fault;
    EXPECT_EQ(store->find("m[0:32]"), nullptr) << fault;
    create();
    EXPECT_EQ(store->find("m")->desc.shape[0], 64) << fault;
  }
}

TEST(TensorScope, ALackOfMemoryNamesItsOwners) {
  const auto device = accel::Device::open(load_plugin("sim"), 0, {{"memory_limit", "100000"}}).value();
  const auto store = std::make_shared<graph::TensorStore>(device);
  store->create("weight", kMatrix);
  graph::TensorScope scope(store, "optimizer");
  const std::string line = failure_of([&] {
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) scope.create(name, kMatrix);
  });
  EXPECT_NE(line.find("(model 16.0 KiB, optimizer "), std::string::npos) << line;
}

}  // namespace
}  // namespace tern::test
