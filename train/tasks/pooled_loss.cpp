#include "train/tasks/pooled_loss.h"

#include <stdexcept>

#include "data/pooled_encoder.h"

namespace tern::train {

void PooledTexts::append(const data::MicroBatch& batch, std::span<const float> pooled) {
  const std::size_t texts = batch.samples();
  if (texts == 0) return;
  const std::size_t first = size();
  if (pooled.size() % texts != 0 || (first > 0 && pooled.size() / texts != width))
    throw std::logic_error("pooled outputs of another width");
  width = pooled.size() / texts;
  outputs.insert(outputs.end(), pooled.begin(), pooled.end());
  for (std::size_t group = 1; group < batch.cu_groups.size(); ++group)
    cu_groups.push_back(first + batch.cu_groups[group]);
  const data::BatchColumn* column = batch.find(data::kLabel);
  for (std::size_t i = 0; i < texts; ++i) {
    std::vector<float>& label = labels.emplace_back();
    if (column == nullptr) continue;
    const auto values = column->entry<float>(i);
    label.assign(values.begin(), values.end());
  }
}

void PooledTexts::append(const PooledTexts& more) {
  const std::size_t first = size();
  if (more.size() > 0) width = more.width;
  outputs.insert(outputs.end(), more.outputs.begin(), more.outputs.end());
  for (std::size_t group = 1; group < more.cu_groups.size(); ++group)
    cu_groups.push_back(first + more.cu_groups[group]);
  labels.insert(labels.end(), more.labels.begin(), more.labels.end());
}

}  // namespace tern::train
