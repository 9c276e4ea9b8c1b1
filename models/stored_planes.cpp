#include "models/stored_planes.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/dtype.h"
#include "base/nf4.h"
#include "io/byte_reader.h"
#include "ops/ref/packing.h"

namespace tern::models {
namespace {

using checkpoint::LogicalTensor;
using Tensors = std::span<const LogicalTensor* const>;
using Runs = std::span<const RowRun>;

bool lies_across(const tern_scheme& scheme) {
  return scheme.packing == TERN_PACK_AWQ_INT4 || scheme.packing == TERN_PACK_GPTQ_INT4;
}

bool is_double(const tern_scheme& scheme) { return (scheme.flags & TERN_SCHEME_DOUBLE_QUANT) != 0; }

int code_bits(const tern_scheme& scheme) { return scheme.packing == TERN_PACK_AWQ_INT4 ? 4 : scheme.bits; }

// Where each input goes when they are sorted by their groups; empty where these have not as many each.
std::vector<std::int32_t> sorted_places(const LogicalTensor& tensor) {
  const std::int64_t k = tensor.shape[1], group = tensor.scheme.group_cols;
  std::vector<std::int32_t> places(static_cast<std::size_t>(k));
  std::vector<std::int64_t> taken(static_cast<std::size_t>(k / group), 0);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t g = io::load_as<std::int32_t>(tensor.permutation->bytes.data() + i * 4);
    if (g < 0 || g >= k / group || taken[static_cast<std::size_t>(g)] == group) return {};
    places[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(g * group + taken[static_cast<std::size_t>(g)]++);
  }
  return places;
}

// Whether the formula of its packing is all that a tensor's numbers are made by.
bool has_usual_planes(const LogicalTensor& tensor) {
  const tern_scheme& scheme = tensor.scheme;
  if (tensor.scale == nullptr || tensor.shape.size() != 2 || !ops::ref::packing_is_known(scheme)) return false;
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
      return tensor.zero == nullptr && scheme.group_rows == 1 && tensor.data->storage.dtype == TERN_I8;
    case TERN_PACK_F8_BLOCK:
      return tensor.zero == nullptr && tensor.data->storage.dtype == TERN_F8_E4M3;
    case TERN_PACK_NF4:
      return std::memcmp(tensor.codebook->bytes.data(), kNf4Levels.data(), sizeof kNf4Levels) == 0 &&
             (!is_double(scheme) || tensor.scale_block == kNf4ScaleLevels);
    case TERN_PACK_GPTQ_INT4:
      return tensor.permutation == nullptr || !sorted_places(tensor).empty();
    default:
      return scheme.packing == TERN_PACK_AWQ_INT4;
  }
}

// Whether no group, nor word, of the tensor spans a border of the run.
bool is_cut_at_groups(const LogicalTensor& tensor, const RowRun& run) {
  const std::int64_t rows = tensor.shape[0];
  if (run.first == 0 && run.count == rows) return true;
  std::int64_t unit = std::max(tensor.scheme.group_rows, 1);
  if (lies_across(tensor.scheme)) unit = 32 / code_bits(tensor.scheme);
  if (tensor.scheme.packing == TERN_PACK_NF4) {
    const std::int64_t group = tensor.scheme.group_cols;
    unit = group / std::gcd(tensor.shape[1], group);
  }
  return run.first % unit == 0 && (run.count % unit == 0 || run.first + run.count == rows);
}

// Whether rows may come after those of the run.
bool fills_groups(const LogicalTensor& tensor, const RowRun& run) {
  if (tensor.scheme.packing == TERN_PACK_NF4) return run.count * tensor.shape[1] % tensor.scheme.group_cols == 0;
  if (lies_across(tensor.scheme)) return run.count % (32 / code_bits(tensor.scheme)) == 0;
  return run.count % std::max(tensor.scheme.group_rows, 1) == 0;
}

bool has_own(const LogicalTensor& tensor) { return is_double(tensor.scheme) || tensor.permutation != nullptr; }

// Rows of planes that lie across, each of all runs: of `rows` rows, in which an output has `bits`.
void append_across(Tensors tensors, Runs runs, const checkpoint::SourceTensor* LogicalTensor::*plane, std::int64_t rows,
                   std::int64_t bits, std::vector<std::byte>& out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const RowRun& run : runs) {
      const LogicalTensor& tensor = *tensors[run.tensor];
      const std::int64_t first = (row * tensor.shape[0] + run.first) * bits / 8;
      const auto part =
          (tensor.*plane)
              ->bytes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(run.count * bits / 8));
      out.insert(out.end(), part.begin(), part.end());
    }
  }
}

// GPTQ's words with the inputs at their places: codes of one output and 32 / bits inputs are a word.
void sort_inputs(std::span<const std::int32_t> places, std::int64_t outputs, int bits, std::span<std::byte> data) {
  const auto per_word = static_cast<std::int64_t>(32 / bits);
  std::vector<std::uint32_t> from(data.size() / 4), to(data.size() / 4, 0U);
  std::memcpy(from.data(), data.data(), data.size());
  const std::uint32_t mask = bits == 32 ? ~0U : (1U << bits) - 1U;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto in = static_cast<std::int64_t>(i);
    const std::int64_t at = places[i];
    const auto shift = static_cast<int>(in % per_word) * bits, new_shift = static_cast<int>(at % per_word) * bits;
    const std::uint32_t* source = from.data() + in / per_word * outputs;
    std::uint32_t* target = to.data() + at / per_word * outputs;
    for (std::int64_t o = 0; o < outputs; ++o) target[o] |= (source[o] >> shift & mask) << new_shift;
  }
  std::memcpy(data.data(), to.data(), data.size());
}

void append_along(Tensors tensors, Runs runs, std::vector<std::byte>& out) {
  const auto append = [&](const checkpoint::SourceTensor& plane, std::int64_t begin, std::int64_t end) {
    const auto part = plane.bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    out.insert(out.end(), part.begin(), part.end());
  };
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const std::int64_t bits = tensor.scheme.packing == TERN_PACK_NF4 ? 4 : 8, k = tensor.shape[1];
    append(*tensor.data, run.first * k * bits / 8, ((run.first + run.count) * k * bits + 7) / 8);
  }
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const tern_scheme& scheme = tensor.scheme;
    const std::int64_t bytes = dtype_bytes(scheme.scale_dtype), k = tensor.shape[1], end = run.first + run.count;
    const std::int64_t rows = std::max(scheme.group_rows, 1), across = (k + scheme.group_cols - 1) / scheme.group_cols;
    if (scheme.packing == TERN_PACK_NF4) {
      append(*tensor.scale, run.first * k / scheme.group_cols * bytes,
             (end * k + scheme.group_cols - 1) / scheme.group_cols * bytes);
    } else {
      append(*tensor.scale, run.first / rows * across * bytes, (end + rows - 1) / rows * across * bytes);
    }
  }
}

void append_levels(const LogicalTensor& tensor, std::vector<std::byte>& out) {
  const auto shift = std::as_bytes(std::span(&tensor.scale_offset, 1));
  for (const auto& part : {tensor.scale_codebook->bytes, shift, tensor.zero->bytes})
    out.insert(out.end(), part.begin(), part.end());
}

}  // namespace

TensorDesc joined_desc(Tensors tensors, Runs runs) {
  const LogicalTensor& first = *tensors.front();
  std::int64_t rows = 0;
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const tern_scheme& scheme = tensor.scheme;
    const bool is_last = &run == &runs.back();
    if (!has_usual_planes(tensor) || std::memcmp(&scheme, &first.scheme, sizeof scheme) != 0 ||
        tensor.shape[1] != first.shape[1] || !is_cut_at_groups(tensor, run) || (!is_last && !fills_groups(tensor, run)))
      return absent_desc();
    const bool is_whole = runs.size() == 1 && run.first == 0 && run.count == tensor.shape[0];
    if (has_own(tensor) && !is_whole) return absent_desc();
    rows += run.count;
  }
  return make_quantised_desc(TERN_F32, first.scheme, rows, first.shape[1]);
}

std::vector<std::byte> joined_planes(Tensors tensors, Runs runs) {
  const LogicalTensor& first = *tensors.front();
  const tern_scheme& scheme = first.scheme;
  std::vector<std::byte> out;
  out.reserve(total_bytes(joined_desc(tensors, runs)));
  if (!lies_across(scheme)) {
    append_along(tensors, runs, out);
    if (is_double(scheme)) append_levels(first, out);
    return out;
  }
  const bool awq = scheme.packing == TERN_PACK_AWQ_INT4;
  const std::int64_t k = first.shape[1], groups = k / scheme.group_cols, bits = code_bits(scheme);
  append_across(tensors, runs, &LogicalTensor::data, awq ? k : k * bits / 32, awq ? bits : 32, out);
  const std::vector<std::int32_t> places =
      first.permutation != nullptr ? sorted_places(first) : std::vector<std::int32_t>();
  if (!places.empty()) sort_inputs(places, first.shape[0], static_cast<int>(bits), out);
  append_across(tensors, runs, &LogicalTensor::scale, groups, std::int64_t{8} * dtype_bytes(scheme.scale_dtype), out);
  append_across(tensors, runs, &LogicalTensor::zero, groups, bits, out);
  const auto order = std::as_bytes(std::span(places));
  out.insert(out.end(), order.begin(), order.end());
  return out;
}

}  // namespace tern::models
