#include "train/lora_init.h"

#include <cmath>
#include <set>

#include "tiny.h"

namespace tern::train {
namespace {

TEST(LoraInit, IsUniformAndBelongsToItsModule) {
  auto model = tiny_model();
  models::AdapterConfig config;
  config.rank = 32;
  const auto modules = models::select_modules(model.config, {"all-linear"}).value();
  const models::LoadedAdapter adapter = models::create_adapter(model, "lora", config, modules);
  init_adapter(*model.store, adapter, 42);
  std::set<std::vector<float>> distinct;
  for (const auto& [module, layer] : adapter.layers) {
    const auto a = download(*model.store, layer.lora_a);
    const double bound = 1.0 / std::sqrt(static_cast<double>(model.store->at(layer.lora_a).desc.shape[1]));
    double sum = 0;
    double squares = 0;
    for (const float value : a) {
      EXPECT_LE(std::abs(value), bound * 1.000001);
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const auto count = static_cast<double>(a.size());
    EXPECT_NEAR(sum / count, 0, 5 * bound / std::sqrt(3 * count)) << module;
    EXPECT_NEAR(squares / count, bound * bound / 3, 0.1 * bound * bound) << module;
    for (const float value : download(*model.store, layer.lora_b)) EXPECT_EQ(value, 0.0F);
    distinct.insert(a);
  }
  EXPECT_EQ(distinct.size(), adapter.layers.size());
  // One module alone starts as it does among others; another seed differs.
  auto alone_model = tiny_model();
  const auto one = models::select_modules(alone_model.config, {"model.layers.1.mlp.up_proj"}).value();
  const models::LoadedAdapter alone = models::create_adapter(alone_model, "lora", config, one);
  const auto& name = alone.layers.begin()->second.lora_a;
  init_adapter(*alone_model.store, alone, 42);
  EXPECT_EQ(download(*alone_model.store, name), download(*model.store, name));
  init_adapter(*alone_model.store, alone, 43);
  EXPECT_NE(download(*alone_model.store, name), download(*model.store, name));
}

}  // namespace
}  // namespace tern::train
