#include "data/micro_batch.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"

namespace tern::data {
namespace {

template <typename T>
void append_as(std::vector<std::byte>& out, double value, std::size_t count) {
  const std::vector<T> values(count, static_cast<T>(value));
  const auto bytes = std::as_bytes(std::span(values));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_padding(BatchColumn& column, std::size_t entries) {
  const std::size_t count = entries * column.spec.width;  // none of a column of any number
  switch (column.spec.dtype) {
    case TERN_I32:
      return append_as<std::int32_t>(column.bytes, column.spec.padding, count);
    case TERN_U32:
      return append_as<std::uint32_t>(column.bytes, column.spec.padding, count);
    case TERN_I64:
      return append_as<std::int64_t>(column.bytes, column.spec.padding, count);
    default:
      return append_as<float>(column.bytes, column.spec.padding, count);
  }
}

// One column of the dataset over the samples of the batch.
BatchColumn gather_column(const EncodedDataset& dataset, std::size_t index, const MicroBatchPlan& plan,
                          const MicroBatch& batch) {
  BatchColumn out;
  out.spec = dataset.columns()[index];
  const bool any_number = out.spec.width == ColumnSpec::kAnyNumber;
  const std::size_t size = static_cast<std::size_t>(dtype_bytes(out.spec.dtype));
  if (any_number) out.offsets.push_back(0);
  std::size_t group = 0;
  for (std::size_t i = 0; i < plan.samples.size(); ++i) {
    if (out.spec.per == Per::group) {
      if (i != batch.cu_groups[group]) continue;
      ++group;
    }
    const auto values = dataset.column(plan.samples[i], index);
    out.bytes.insert(out.bytes.end(), values.begin(), values.end());
    const auto length = static_cast<std::size_t>(batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]);
    if (values.empty()) append_padding(out, out.spec.per == Per::token ? length : 1);
    if (any_number) out.offsets.push_back(static_cast<std::uint32_t>(out.bytes.size() / size));
  }
  return out;
}

}  // namespace

std::size_t MicroBatch::entries(Per per) const {
  return per == Per::token ? tokens() : per == Per::sample ? samples() : groups();
}

const BatchColumn* MicroBatch::find(std::string_view name) const {
  const auto at =
      std::find_if(columns.begin(), columns.end(), [&](const BatchColumn& it) { return it.spec.name == name; });
  return at == columns.end() ? nullptr : &*at;
}

const BatchColumn& MicroBatch::column(std::string_view name) const {
  const BatchColumn* found = find(name);
  if (found == nullptr) throw std::logic_error(cat("a micro-batch without the column ", name));
  return *found;
}

BatchColumn& MicroBatch::column(std::string_view name) {
  return const_cast<BatchColumn&>(std::as_const(*this).column(name));
}

void MicroBatch::add(BatchColumn column) {
  const ColumnSpec& spec = column.spec;
  if (find(spec.name) != nullptr) throw std::logic_error(cat("two columns ", spec.name));
  const std::size_t count = entries(spec.per);
  const std::size_t values = column.bytes.size() / static_cast<std::size_t>(dtype_bytes(spec.dtype));
  const bool fits = spec.width == ColumnSpec::kAnyNumber
                        ? column.offsets.size() == count + 1 && column.offsets.back() == values
                        : values == count * spec.width;
  if (!fits) throw std::logic_error(cat("column ", spec.name, " of ", values, " values over ", count, " entries"));
  columns.push_back(std::move(column));
}

MicroBatch gather(const EncodedDataset& dataset, const MicroBatchPlan& plan) {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  for (auto* column : {&ids, &positions, &labels}) column->reserve(plan.tokens);
  weights.reserve(plan.tokens);
  MicroBatch batch;
  batch.cu_seqlens.push_back(0);
  for (std::size_t i = 0; i < plan.samples.size(); ++i) {
    const std::uint32_t id = plan.samples[i];
    if (dataset.begins_group(id)) batch.cu_groups.push_back(static_cast<std::uint32_t>(i));
    const SampleView sample = dataset.sample(id);
    const std::size_t length = sample.ids.size();
    ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
    for (std::size_t t = 0; t < length; ++t) {
      const bool target = t + 1 < length && sample.weights[t + 1] > 0;
      positions.push_back(static_cast<std::int32_t>(t));
      labels.push_back(target ? sample.ids[t + 1] : kNoLabel);
      weights.push_back(target ? sample.weights[t + 1] : 0.0F);
    }
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
    batch.longest = std::max(batch.longest, static_cast<std::uint32_t>(length));
  }
  batch.cu_groups.push_back(static_cast<std::uint32_t>(plan.samples.size()));
  for (std::size_t c = 0; c < dataset.columns().size(); ++c) batch.add(gather_column(dataset, c, plan, batch));
  const auto add = [&](const char* name, Per per, const auto& values, double padding) {
    if (batch.find(name) == nullptr) batch.add(ColumnSpec{name, per, {}, 1, padding}, values);
  };
  add(kIds, Per::token, ids, 0);
  add(kPositions, Per::token, positions, 0);
  add(kLabels, Per::token, labels, kNoLabel);
  add(kLossWeights, Per::token, weights, 0);
  add(kSampleIds, Per::sample, plan.samples, 0);
  return batch;
}

}  // namespace tern::data
