#include "models/stored_planes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/dtype.h"
#include "base/nf4.h"
#include "checkpoint/packed_words.h"
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

// Outputs whose codes fill whole words.
std::int64_t outputs_of_words(const tern_scheme& scheme) {
  const int bits = code_bits(scheme);
  return bits == 3 ? 32 : 32 / bits;
}

// int8 with zero points is GPTQ's packing of 8 bits to a device: its codes count from 128 on.
bool any_shifted(Tensors tensors, Runs runs) {
  return std::any_of(runs.begin(), runs.end(), [&](const RowRun& run) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    return tensor.scheme.packing == TERN_PACK_ROW_INT8 && tensor.zero != nullptr;
  });
}

// The scheme of a tensor's planes as a device gets them.
tern_scheme device_scheme(const LogicalTensor& tensor, bool shifted) {
  tern_scheme scheme = tensor.scheme;
  if (scheme.packing != TERN_PACK_ROW_INT8) return scheme;
  scheme.group_rows = 1;  // where one scale is of several rows, each gets its own
  if (!shifted) return scheme;
  scheme.packing = TERN_PACK_GPTQ_INT4;
  scheme.flags = TERN_SCHEME_IN_ORDER;
  return scheme;
}

// That of all of them: zero points are stored less one only where each tensor's are.
tern_scheme joined_scheme(Tensors tensors, Runs runs) {
  tern_scheme scheme = device_scheme(*tensors[runs.front().tensor], any_shifted(tensors, runs));
  for (const RowRun& run : runs) {
    if ((tensors[run.tensor]->scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) == 0)
      scheme.flags &= ~TERN_SCHEME_ZERO_LESS_ONE;
  }
  return scheme;
}

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

bool has_usual_levels(const LogicalTensor& tensor) {
  std::array<float, 16> levels;
  std::memcpy(levels.data(), tensor.codebook->bytes.data(), sizeof levels);
  return levels == levels4(tensor.scheme.packing);
}

// Whether the formula of its packing is all that a tensor's numbers are made by.
bool has_usual_planes(const LogicalTensor& tensor, const tern_scheme& scheme) {
  if (tensor.scale == nullptr || tensor.shape.size() != 2 || !ops::ref::packing_is_known(scheme)) return false;
  const bool fills_words =
      tensor.shape[0] * code_bits(scheme) % 32 == 0 && tensor.shape[1] * code_bits(scheme) % 32 == 0;
  switch (scheme.packing) {
    case TERN_PACK_ROW_INT8:
      return tensor.data->storage.dtype == TERN_I8;
    case TERN_PACK_F8_BLOCK:
      return tensor.zero == nullptr && tensor.data->storage.dtype == TERN_F8_E4M3;
    case TERN_PACK_NF4:
    case TERN_PACK_FP4:
      return has_usual_levels(tensor) && (!is_double(scheme) || tensor.scale_block == kNf4ScaleLevels);
    case TERN_PACK_GPTQ_INT4:
      return fills_words && (tensor.permutation == nullptr || !sorted_places(tensor).empty());
    default:
      return scheme.packing == TERN_PACK_AWQ_INT4;
  }
}

// Whether no group, nor word, of the tensor spans a border of the run.
bool is_cut_at_groups(const LogicalTensor& tensor, const tern_scheme& scheme, const RowRun& run) {
  const std::int64_t rows = tensor.shape[0];
  if (run.first == 0 && run.count == rows) return true;
  std::int64_t unit = std::max(scheme.group_rows, 1);
  if (lies_across(scheme)) unit = outputs_of_words(scheme);
  if (is_levels4(scheme.packing)) unit = scheme.group_cols / std::gcd(tensor.shape[1], scheme.group_cols);
  return run.first % unit == 0 && (run.count % unit == 0 || run.first + run.count == rows);
}

// Whether rows may come after those of the run.
bool fills_groups(const LogicalTensor& tensor, const tern_scheme& scheme, const RowRun& run) {
  if (is_levels4(scheme.packing)) return run.count * tensor.shape[1] % scheme.group_cols == 0;
  if (lies_across(scheme)) return run.count % outputs_of_words(scheme) == 0;
  return run.count % std::max(scheme.group_rows, 1) == 0;
}

bool has_own(const LogicalTensor& tensor) { return is_double(tensor.scheme) || tensor.permutation != nullptr; }

// Whether planes that a device takes across are rows of an output in the file.
bool is_turned(const LogicalTensor& tensor) {
  return tensor.arrangement != checkpoint::Arrangement::usual || tensor.scheme.packing == TERN_PACK_ROW_INT8;
}

// Words of an output, one after the other, become a column of a row for each. Four codes of int8 are such a word.
void append_turned(Tensors tensors, Runs runs, std::int64_t words, std::vector<std::byte>& out) {
  constexpr std::int64_t kTile = 16;  // words of a line of a cache
  std::int64_t rows = 0;
  for (const RowRun& run : runs) rows += run.count;
  const std::size_t begin = out.size();
  out.resize(begin + static_cast<std::size_t>(rows * words * 4));
  std::byte* to = out.data() + begin;
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const std::uint32_t shift = tensor.scheme.packing == TERN_PACK_ROW_INT8 ? 0x80808080U : 0U;
    for (std::int64_t first = 0; first < words; first += kTile) {
      for (std::int64_t r = 0; r < run.count; ++r) {
        const std::byte* from = tensor.data->bytes.data() + (run.first + r) * words * 4;
        for (std::int64_t w = first; w < std::min(first + kTile, words); ++w) {
          const std::uint32_t word = io::load_as<std::uint32_t>(from + w * 4) ^ shift;
          std::memcpy(to + (w * rows + r) * 4, &word, 4);
        }
      }
    }
    to += run.count * 4;
  }
}

// A row of scales for each group, from wherever the file has them.
void append_scales(Tensors tensors, Runs runs, std::int64_t groups, std::vector<std::byte>& out) {
  for (std::int64_t g = 0; g < groups; ++g) {
    for (const RowRun& run : runs) {
      const LogicalTensor& tensor = *tensors[run.tensor];
      const std::int64_t bytes = dtype_bytes(tensor.scheme.scale_dtype);
      for (std::int64_t r = run.first; r < run.first + run.count; ++r) {
        const auto one = tensor.scale->bytes.subspan(
            static_cast<std::size_t>(checkpoint::scale_index(tensor, r, g) * bytes), static_cast<std::size_t>(bytes));
        out.insert(out.end(), one.begin(), one.end());
      }
    }
  }
}

// A row of zero points for each group, lowest bits first.
void append_zero_points(Tensors tensors, Runs runs, std::int64_t groups, int bits, std::vector<std::byte>& out) {
  for (std::int64_t g = 0; g < groups; ++g) {
    std::uint64_t kept = 0;
    int filled = 0;
    for (const RowRun& run : runs) {
      for (std::int64_t r = run.first; r < run.first + run.count; ++r) {
        kept |= static_cast<std::uint64_t>(checkpoint::zero_point(*tensors[run.tensor], r, g)) << filled;
        filled += bits;
        if (filled < 32) continue;
        const auto word = static_cast<std::uint32_t>(kept);
        const auto part = std::as_bytes(std::span(&word, 1));
        out.insert(out.end(), part.begin(), part.end());
        kept >>= 32;
        filled -= 32;
      }
    }
  }
}

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

// GPTQ's words with the inputs at their places: codes of one output are `bits` each, one after the other.
void sort_inputs(std::span<const std::int32_t> places, std::int64_t outputs, int bits, std::span<std::byte> data) {
  std::vector<std::uint32_t> from(data.size() / 4), to(data.size() / 4, 0U);
  std::memcpy(from.data(), data.data(), data.size());
  const std::uint32_t mask = (1U << bits) - 1U;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t old_bit = static_cast<std::int64_t>(i) * bits, new_bit = std::int64_t{places[i]} * bits;
    const auto shift = static_cast<int>(old_bit % 32), new_shift = static_cast<int>(new_bit % 32);
    const std::uint32_t* source = from.data() + old_bit / 32 * outputs;
    std::uint32_t* target = to.data() + new_bit / 32 * outputs;
    const bool straddles = shift + bits > 32, new_straddles = new_shift + bits > 32;
    for (std::int64_t o = 0; o < outputs; ++o) {
      std::uint32_t code = source[o] >> shift;
      if (straddles) code |= source[outputs + o] << (32 - shift);
      code &= mask;
      target[o] |= code << new_shift;
      if (new_straddles) target[outputs + o] |= code >> (32 - new_shift);
    }
  }
  std::memcpy(data.data(), to.data(), data.size());
}

// Scales of rows that the file has otherwise: as parts of them, or as one for several rows.
void append_row_scales(const LogicalTensor& tensor, const RowRun& run, std::int64_t across,
                       std::vector<std::byte>& out) {
  const auto bytes = static_cast<std::size_t>(dtype_bytes(tensor.scheme.scale_dtype));
  for (std::int64_t r = run.first; r < run.first + run.count; ++r) {
    for (std::int64_t g = 0; g < across; ++g) {
      const auto at = static_cast<std::size_t>(checkpoint::scale_index(tensor, r, g)) * bytes;
      const auto one = tensor.scale->bytes.subspan(at, bytes);
      if (tensor.scale_by == 1) {
        out.insert(out.end(), one.begin(), one.end());
        continue;
      }
      const float scale = io::load_as<float>(one.data()) * tensor.scale_by;  // fp32: bitsandbytes' SCB
      const auto part = std::as_bytes(std::span(&scale, 1));
      out.insert(out.end(), part.begin(), part.end());
    }
  }
}

void append_along(Tensors tensors, Runs runs, std::vector<std::byte>& out) {
  const auto append = [&](const checkpoint::SourceTensor& plane, std::int64_t begin, std::int64_t end) {
    const auto part = plane.bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    out.insert(out.end(), part.begin(), part.end());
  };
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const std::int64_t bits = is_levels4(tensor.scheme.packing) ? 4 : 8, k = tensor.shape[1];
    append(*tensor.data, run.first * k * bits / 8, ((run.first + run.count) * k * bits + 7) / 8);
  }
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    const tern_scheme& scheme = tensor.scheme;
    const std::int64_t bytes = dtype_bytes(scheme.scale_dtype), k = tensor.shape[1], end = run.first + run.count;
    const std::int64_t rows = std::max(scheme.group_rows, 1), across = (k + scheme.group_cols - 1) / scheme.group_cols;
    if (tensor.scale_by != 1 || (scheme.packing == TERN_PACK_ROW_INT8 && rows > 1)) {
      append_row_scales(tensor, run, across, out);
    } else if (is_levels4(scheme.packing)) {
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
  const LogicalTensor& first = *tensors[runs.front().tensor];
  const bool shifted = any_shifted(tensors, runs);
  const tern_scheme joined = joined_scheme(tensors, runs);
  std::int64_t rows = 0;
  for (const RowRun& run : runs) {
    const LogicalTensor& tensor = *tensors[run.tensor];
    tern_scheme scheme = device_scheme(tensor, shifted);
    const bool usual = has_usual_planes(tensor, scheme);
    scheme.flags = (scheme.flags & ~TERN_SCHEME_ZERO_LESS_ONE) | (joined.flags & TERN_SCHEME_ZERO_LESS_ONE);
    const bool is_last = &run == &runs.back();
    if (!usual || std::memcmp(&scheme, &joined, sizeof scheme) != 0 || tensor.shape[1] != first.shape[1] ||
        tensor.arrangement != first.arrangement || !is_cut_at_groups(tensor, scheme, run) ||
        (!is_last && !fills_groups(tensor, scheme, run)))
      return absent_desc();
    const bool is_whole = runs.size() == 1 && run.first == 0 && run.count == tensor.shape[0];
    if (has_own(tensor) && !is_whole) return absent_desc();
    rows += run.count;
  }
  return make_quantised_desc(TERN_F32, joined, rows, first.shape[1]);
}

std::vector<std::byte> joined_planes(Tensors tensors, Runs runs) {
  const LogicalTensor& first = *tensors[runs.front().tensor];
  const tern_scheme scheme = joined_scheme(tensors, runs);
  std::vector<std::byte> out;
  out.reserve(total_bytes(joined_desc(tensors, runs)));
  if (!lies_across(scheme)) {
    append_along(tensors, runs, out);
    if (is_double(scheme)) append_levels(first, out);
    return out;
  }
  const bool awq = scheme.packing == TERN_PACK_AWQ_INT4, turned = is_turned(first);
  const std::int64_t k = first.shape[1], groups = k / scheme.group_cols, bits = code_bits(scheme);
  if (turned) {
    append_turned(tensors, runs, k * bits / 32, out);
  } else {
    append_across(tensors, runs, &LogicalTensor::data, awq ? k : k * bits / 32, awq ? bits : 32, out);
  }
  const std::vector<std::int32_t> places =
      first.permutation != nullptr ? sorted_places(first) : std::vector<std::int32_t>();
  if (!places.empty()) sort_inputs(places, first.shape[0], static_cast<int>(bits), out);
  if (turned) {
    append_scales(tensors, runs, groups, out);
  } else {
    append_across(tensors, runs, &LogicalTensor::scale, groups, std::int64_t{8} * dtype_bytes(scheme.scale_dtype), out);
  }
  if (awq || (scheme.flags & TERN_SCHEME_ZERO_LESS_ONE) != 0) {
    append_across(tensors, runs, &LogicalTensor::zero, groups, bits, out);
  } else {
    append_zero_points(tensors, runs, groups, static_cast<int>(bits), out);
  }
  const auto order = std::as_bytes(std::span(places));
  out.insert(out.end(), order.begin(), order.end());
  return out;
}

}  // namespace tern::models
