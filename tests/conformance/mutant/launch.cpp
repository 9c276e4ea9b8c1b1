#include "mutant/launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"

namespace tern::mutant {
namespace {

constexpr std::byte kOtherPoison{0x3c};  // what the suite fills a workspace with now and then

bool is_float(tern_dtype dtype) { return dtype_info(dtype).floating; }

}  // namespace

Lengths::Lengths(const tern_host_args& args) {
  for (std::uint32_t i = 0; i < args.num_arrays; ++i) {
    arrays.emplace_back(args.arrays[i].data, args.arrays[i].data + args.arrays[i].count);
  }
  std::copy(std::begin(args.counts), std::end(args.counts), counts.begin());
}

LengthsView::LengthsView(const Lengths& lengths) {
  for (const auto& array : lengths.arrays) arrays_.push_back({array.data(), static_cast<std::int64_t>(array.size())});
  args_.size = sizeof(args_);
  args_.num_arrays = static_cast<std::uint32_t>(arrays_.size());
  args_.arrays = arrays_.data();
  std::copy(lengths.counts.begin(), lengths.counts.end(), args_.counts);
}

Launch::Launch(const Plan& plan, Bound& bound, const Memory& memory, Run run, int& made)
    : plan_(plan), bound_(bound), memory_(memory), run_(std::move(run)), made_(made) {}

bool Launch::shares() const {
  return std::any_of(bound_.alias.begin(), bound_.alias.end(), [](std::int8_t alias) { return alias >= 0; });
}

std::int64_t Launch::size(std::size_t arg) const {
  return num_elements(valid_part(bound_.args[arg].desc, lengths_.counts.data()));
}

Bytes Launch::whole(std::size_t arg) const {
  if (!present(arg) || bound_.args[arg].desc.layout != 0) return {};
  return memory_.read(bound_.args[arg].planes[0], plane_bytes(bound_.args[arg].desc).bytes[0]);
}

std::vector<Bytes> Launch::outputs() const {
  std::vector<Bytes> out(bound_.args.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (written(i)) out[i] = whole(i);
  }
  return out;
}

void Launch::restore(const std::vector<Bytes>& outputs) const {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].empty()) memory_.write(bound_.args[i].planes[0], outputs[i]);
  }
}

std::int64_t Launch::largest(std::size_t arg) const {
  const tern_tensor& tensor = bound_.args[arg];
  std::array<std::span<const std::byte>, 1> planes;
  const Bytes bytes = whole(arg);
  planes[0] = bytes;
  const ops::ref::Tensor values = ops::ref::decode(valid_part(tensor.desc, lengths_.counts.data()), planes);
  if (!is_float(tensor.desc.dtype)) return static_cast<std::int64_t>(values.integer.size()) - 1;
  std::int64_t best = -1;
  for (auto i = static_cast<std::size_t>(first_judged(arg)); i < values.real.size(); ++i) {
    const double value = std::fabs(values.real[i]);
    if (value > 0.0 && std::isfinite(value) &&
        (best < 0 || value > std::fabs(values.real[static_cast<std::size_t>(best)]))) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

std::size_t Launch::some_output() const {
  if (plan_.arg >= 0 && written(static_cast<std::size_t>(plan_.arg))) return static_cast<std::size_t>(plan_.arg);
  for (std::size_t i = 0; i < bound_.args.size(); ++i) {
    if (written(i) && present(i)) return i;
  }
  return 0;
}

void Launch::nudge(std::size_t arg, std::int64_t element, double factor) {
  if (element < 0) return;
  const Element at = element_at(bound_.args[arg], lengths_.counts.data(), element);
  const ops::ref::Tensor value = to_value(at, load(memory_, at));
  store(memory_, at,
        is_float(at.dtype) ? from_real(at, value.real[0] * factor) : from_integer(at, value.integer[0] + 1));
  ++made_;
}

bool Launch::runs_differently(const Lengths& lengths, const Lengths& changed, const std::function<void()>& change,
                              const std::function<void()>& undo, tern_status& status) {
  const std::vector<Bytes> before = outputs();
  status = run_(bound_.inner, lengths);
  memory_.finish();
  const std::vector<Bytes> clean = outputs();
  restore(before);
  change();
  status = std::max(status, run_(bound_.inner, changed));
  memory_.finish();
  undo();
  return outputs() != clean;
}

tern_status Launch::go(const Lengths& lengths) {
  lengths_ = lengths;
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  if (bound_.launches++ == 0) {
    bound_.first_lengths = lengths;
    bound_.first_inputs.resize(bound_.args.size());
    if (plan_.mistake == Mistake::stale_input || plan_.mistake == Mistake::stale_lengths) {
      for (std::size_t i = 0; i < bound_.args.size(); ++i) {
        if (!written(i)) bound_.first_inputs[i] = whole(i);
      }
    }
  }
  switch (plan_.mistake) {
    case Mistake::lost_term:
    case Mistake::stale_input:
    case Mistake::wrong_index:
      return shares() || !present(arg) || size(arg) == 0 || bound_.args[arg].desc.layout != 0
                 ? run_(bound_.inner, lengths)
                 : spoil_input(lengths);
    case Mistake::tf32:
    case Mistake::narrow_query:
      return round_input(lengths);
    case Mistake::lost_eps:
      return lose_eps(lengths);
    case Mistake::ignored_mask:
    case Mistake::wrong_mask_row:
    case Mistake::wrong_mask_stride:
      return present(arg) && size(arg) > 0 ? spoil_mask(lengths) : run_(bound_.inner, lengths);
    case Mistake::stale_lengths:
    case Mistake::short_count:
    case Mistake::long_count:
    case Mistake::wrong_length:
    case Mistake::first_slot:
      return shares() ? run_(bound_.inner, lengths) : spoil_lengths(lengths);
    case Mistake::wrong_attribute:
      return shares() || bound_.other == nullptr || bound_.desc.accumulate != 0 ? run_(bound_.inner, lengths)
                                                                                : use_other_attribute(lengths);
    default:
      return spoil_output(lengths);
  }
}

void Launch::spoil_some(const Lengths& lengths) {
  lengths_ = lengths;
  const std::size_t out = some_output();
  if (size(out) > 0) nudge(out, largest(out), 1.01);
}

tern_status Launch::spoil_input(const Lengths& lengths) {
  const auto arg = static_cast<std::size_t>(plan_.arg);
  const tern_tensor& tensor = bound_.args[arg];
  if (is_quantised(tensor.desc)) return spoil_block(lengths);
  tern_status status = TERN_OK;
  // From the last element back to one that matters: some are masked, skipped or ignored.
  const std::int64_t count = size(arg);
  for (std::int64_t n = count - 1, tries = 0; n >= 0 && tries < 30; n -= tries < 12 ? 1 : 1 + count / 20) {
    const Element at = element_at(tensor, lengths.counts.data(), n);
    const Bytes right = load(memory_, at);
    const ops::ref::Tensor value = to_value(at, right);
    Bytes wrong = right;
    if (plan_.mistake == Mistake::stale_input) {
      const auto offset = static_cast<std::ptrdiff_t>(at.plane.offset - tensor.planes[0].offset);
      const Bytes& first = bound_.first_inputs[arg];
      wrong.assign(first.begin() + offset, first.begin() + offset + static_cast<std::ptrdiff_t>(right.size()));
    } else if (plan_.mistake == Mistake::lost_term) {
      wrong = from_real(at, 0.0);
    } else if (value.integer[0] >= 1) {
      wrong = from_integer(at, value.integer[0] - 1);
    }
    if (wrong == right) continue;
    ++tries;
    const std::vector<Bytes> before = outputs();
    if (runs_differently(
            lengths, lengths, [&] { store(memory_, at, wrong); }, [&] { store(memory_, at, right); }, status)) {
      ++made_;
      return status;
    }
    restore(before);
  }
  return run_(bound_.inner, lengths);
}

// The last byte of a quantised tensor: one element, or two that share it.
tern_status Launch::spoil_block(const Lengths& lengths) {
  const auto arg = static_cast<std::size_t>(plan_.arg);
  const std::uint64_t bytes = plane_bytes(bound_.args[arg].desc).bytes[0];
  if (bytes == 0) return run_(bound_.inner, lengths);
  tern_plane last = bound_.args[arg].planes[0];
  last.offset += bytes - 1;
  const Bytes right = memory_.read(last, 1);
  Bytes wrong = {right[0] ^ std::byte{0x44}};
  if (plan_.mistake == Mistake::stale_input) wrong = {bound_.first_inputs[arg].back()};
  if (wrong == right) return run_(bound_.inner, lengths);
  tern_status status = TERN_OK;
  const auto put = [&](const Bytes& value) { return [&, value] { memory_.write(last, value); }; };
  if (runs_differently(lengths, lengths, put(wrong), put(right), status)) ++made_;
  return status;
}

tern_status Launch::spoil_lengths(const Lengths& lengths) {
  Lengths changed = lengths;
  std::vector<Bytes> kept(bound_.args.size());
  std::vector<Bytes> given(bound_.args.size());
  std::size_t array = 0;
  for (std::size_t i = 0; i < bound_.args.size(); ++i) {
    const tern_tensor_desc& desc = bound_.args[i].desc;
    if (desc.rank > 0 && desc.dynamic_dim >= 0) {
      std::int64_t& count = changed.counts[desc.count_slot];
      const std::int64_t is = lengths.counts[desc.count_slot];
      if (plan_.mistake == Mistake::short_count) count = std::max<std::int64_t>(0, is - 1);
      if (plan_.mistake == Mistake::first_slot) count = lengths.counts[0];
      if (plan_.mistake == Mistake::long_count) count = std::min(desc.shape[desc.dynamic_dim], is + 1);
    }
    if ((spec().args[i].flags & ops::kLengths) == 0) continue;
    kept[i] = whole(i);
    given[i] = kept[i];
    auto& values = changed.arrays.at(array++);
    if (plan_.mistake == Mistake::stale_lengths) {
      values = bound_.first_lengths->arrays.at(array - 1);
      given[i] = bound_.first_inputs[i];
    } else if (plan_.mistake == Mistake::wrong_length && plan_.arg == static_cast<int>(i)) {
      const bool cumulative = spec().args[i].name != "kv_lens";
      for (std::size_t n = values.size(); n-- > (cumulative ? 1U : 0U);) {
        const std::int32_t least = cumulative ? values[n - 1] : 0;
        if (values[n] <= least) continue;
        --values[n];
        std::memcpy(given[i].data(), values.data(), given[i].size());
        break;
      }
    }
  }
  if (plan_.mistake == Mistake::stale_lengths) changed.counts = bound_.first_lengths->counts;
  if (changed == lengths) return run_(bound_.inner, lengths);
  auto put = [&](const std::vector<Bytes>& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (!bytes[i].empty()) memory_.write(bound_.args[i].planes[0], bytes[i]);
    }
  };
  tern_status status = TERN_OK;
  if (runs_differently(
          lengths, changed, [&] { put(given); }, [&] { put(kept); }, status))
    ++made_;
  return status;
}

tern_status Launch::use_other_attribute(const Lengths& lengths) {
  const std::vector<Bytes> before = outputs();
  tern_status status = run_(bound_.other, lengths);
  memory_.finish();
  const std::vector<Bytes> wrong = outputs();
  restore(before);
  status = std::max(status, run_(bound_.inner, lengths));
  memory_.finish();
  // the one element that differs most
  double most = 0.0;
  std::optional<Element> at;
  Bytes value;
  for (std::size_t i = 0; i < bound_.args.size(); ++i) {
    if (wrong[i].empty()) continue;
    const tern_tensor_desc desc = valid_part(bound_.args[i].desc, lengths.counts.data());
    const Bytes right = whole(i);
    std::span<const std::byte> planes[2] = {right, wrong[i]};
    const ops::ref::Tensor a = ops::ref::decode(desc, std::span(&planes[0], 1));
    const ops::ref::Tensor b = ops::ref::decode(desc, std::span(&planes[1], 1));
    for (std::size_t n = 0; n < std::max(a.real.size(), a.integer.size()); ++n) {
      const double left = a.real.empty() ? static_cast<double>(a.integer[n]) : a.real[n];
      const double other = b.real.empty() ? static_cast<double>(b.integer[n]) : b.real[n];
      if (!std::isfinite(left) || !std::isfinite(other)) continue;
      const double difference = std::fabs(left - other) / (std::fabs(left) + 1e-3);
      if (difference <= most) continue;
      most = difference;
      at = element_at(bound_.args[i], lengths.counts.data(), static_cast<std::int64_t>(n));
      const auto offset = static_cast<std::ptrdiff_t>(at->plane.offset - bound_.args[i].planes[0].offset);
      value.assign(wrong[i].begin() + offset, wrong[i].begin() + offset + dtype_bytes(desc.dtype));
    }
  }
  if (at) {
    store(memory_, *at, value);
    ++made_;
  }
  return status;
}

tern_status Launch::spoil_output(const Lengths& lengths) {
  const std::vector<Bytes> before = outputs();
  const Bytes held = bound_.extra ? memory_.read(*bound_.extra, 1) : Bytes{};
  const tern_status status = run_(bound_.inner, lengths);
  memory_.finish();
  if (status != TERN_OK) return status;
  if (plan_.mistake == Mistake::stale_workspace) {
    const std::size_t out = some_output();
    if (!held.empty() && held[0] == kOtherPoison && size(out) > 0) nudge(out, largest(out), 1.01);
    return status;
  }
  after(before);
  return status;
}

void Launch::after(const std::vector<Bytes>& before) {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  if (!present(arg) || bound_.args[arg].desc.layout != 0) return;
  spoil_value();
  spoil_structure(before);
  spoil_against_before(before);
  spoil_memory();
}

// Mistakes that look at the result alone.
void Launch::spoil_value() {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  const tern_tensor& tensor = bound_.args[arg];
  const std::int64_t count = size(arg);
  auto at = [&](std::int64_t n) { return element_at(tensor, lengths_.counts.data(), n); };
  switch (plan_.mistake) {
    case Mistake::wrong_element:
      if (count > 0) nudge(arg, largest(arg), 1.01);
      return;
    case Mistake::wrong_rounding: {
      if (dtype_bytes(tensor.desc.dtype) != 2 || count == 0) return;
      const std::int64_t n = largest(arg);
      if (n < 0) return;
      store(memory_, at(n), neighbour(at(n), load(memory_, at(n))));
      ++made_;
      return;
    }
    case Mistake::lost_special:
      for (std::int64_t n = first_judged(arg); is_float(tensor.desc.dtype) && n < count; ++n) {
        if (std::isfinite(to_value(at(n), load(memory_, at(n))).real[0])) continue;
        store(memory_, at(n), from_real(at(n), 0.0));
        ++made_;
        return;
      }
      return;
    case Mistake::not_deterministic:
    case Mistake::row_variant: {
      const bool now =
          plan_.mistake == Mistake::not_deterministic ? bound_.launches % 2 == 0 : tensor.desc.shape[0] == 1;
      const std::int64_t n = now && is_float(tensor.desc.dtype) && count > 0 ? largest(arg) : -1;
      if (n < 0) return;
      store(memory_, at(n), neighbour(at(n), load(memory_, at(n))));
      ++made_;
      return;
    }
    default:
      return;
  }
}

// Mistakes that keep or add what the output held.
void Launch::spoil_against_before(const std::vector<Bytes>& before) {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  const tern_tensor& tensor = bound_.args[arg];
  const std::int64_t count = size(arg);
  auto at = [&](std::int64_t n) { return element_at(tensor, lengths_.counts.data(), n); };
  const bool adds = (bound_.desc.accumulate >> arg & 1U) != 0;
  auto old = [&](const Element& element) {
    const auto offset = static_cast<std::ptrdiff_t>(element.plane.offset - tensor.planes[0].offset);
    return Bytes(before[arg].begin() + offset, before[arg].begin() + offset + dtype_bytes(element.dtype));
  };
  switch (plan_.mistake) {
    case Mistake::missed_tail:
      for (std::int64_t n = count - 1; n >= 0; --n) {
        const Element element = at(n);
        if (load(memory_, element) == old(element)) continue;
        store(memory_, element, old(element));
        ++made_;
        return;
      }
      return;
    case Mistake::large_stride:
      if (tensor.desc.rank > 0 && std::max(tensor.desc.shape[0], tensor.desc.shape[tensor.desc.rank - 1]) < 250) return;
      [[fallthrough]];
    case Mistake::wrong_stride: {
      const int rank = tensor.desc.rank;
      if (rank < 2 || count == 0) return;
      const std::int64_t width = tensor.desc.shape[rank - 1];
      const std::int64_t rows = count / width;
      if (rows < 2 || tensor.desc.strides[rank - 2] <= width * tensor.desc.strides[rank - 1]) return;
      const Element right = at((rows - 1) * width);
      const Bytes value = load(memory_, right);
      store(memory_, right, old(right));
      Element wrong = right;
      wrong.plane.offset =
          tensor.planes[0].offset + static_cast<std::uint64_t>((rows - 1) * width * dtype_bytes(right.dtype));
      store(memory_, wrong, value);
      ++made_;
      return;
    }
    case Mistake::no_accumulate: {
      if (!adds || count == 0) return;
      const Element element = at(count - 1);
      const ops::ref::Tensor now = to_value(element, load(memory_, element));
      const ops::ref::Tensor then = to_value(element, old(element));
      if (is_float(element.dtype)) {
        if (!std::isfinite(now.real[0]) || then.real[0] == 0.0) return;
        store(memory_, element, from_real(element, now.real[0] - then.real[0]));
      } else {
        if (then.integer[0] != 0) return;
        store(memory_, element, from_integer(element, 1));
      }
      ++made_;
      return;
    }
    case Mistake::always_accumulate: {
      if (adds || count == 0 || spec().args[arg].role == ops::Role::state || shares()) return;
      const Element element = at(count - 1);
      const ops::ref::Tensor now = to_value(element, load(memory_, element));
      const ops::ref::Tensor then = to_value(element, old(element));
      store(memory_, element,
            is_float(element.dtype) ? from_real(element, now.real[0] + then.real[0])
                                    : from_integer(element, now.integer[0] + then.integer[0]));
      ++made_;
      return;
    }
    default:
      return;
  }
}

// Mistakes in memory that is none of the output's.
void Launch::spoil_memory() {
  const auto arg = static_cast<std::size_t>(std::max(plan_.arg, 0));
  const tern_tensor& tensor = bound_.args[arg];
  const std::int64_t count = size(arg);
  auto at = [&](std::int64_t n) { return element_at(tensor, lengths_.counts.data(), n); };
  switch (plan_.mistake) {
    case Mistake::write_past_end: {
      tern_plane end = tensor.planes[0];
      end.offset += plane_bytes(tensor.desc).bytes[0];
      memory_.write(end, {std::byte{0}});
      ++made_;
      return;
    }
    case Mistake::read_past_end: {
      tern_plane end = tensor.planes[0];
      end.offset += plane_bytes(tensor.desc).bytes[0];
      const std::size_t out = some_output();
      if (memory_.read(end, 1)[0] != std::byte{0} && size(out) > 0) nudge(out, largest(out), 1.01);
      return;
    }
    case Mistake::write_input: {
      if (count == 0) return;
      if (is_quantised(tensor.desc)) {
        tern_plane last = tensor.planes[0];
        last.offset += plane_bytes(tensor.desc).bytes[0] - 1;
        memory_.write(last, {memory_.read(last, 1)[0] ^ std::byte{1}});
        ++made_;
        return;
      }
      for (std::size_t i = 0; i < bound_.alias.size(); ++i) {
        if (bound_.alias[i] == static_cast<std::int8_t>(arg)) return;
      }
      Bytes bytes = load(memory_, at(count - 1));
      bytes[0] ^= std::byte{1};
      store(memory_, at(count - 1), bytes);
      ++made_;
      return;
    }
    default:
      return;
  }
}

}  // namespace tern::mutant
