#include "graph/row_split.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/strings.h"
#include "graph/row_operand.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/cast_copy.h"
#include "ops/rules.h"
#include "ops/shard_index.h"

namespace tern::graph {
namespace {

struct Call {
  OpCall like;  // op, attributes, needs, accumulate
  std::vector<Operand> in;
  std::vector<TensorDesc> out;
};

TensorDesc slice(TensorDesc desc, int dim, std::int64_t begin, std::int64_t end) {
  desc.shape[dim] = end - begin;
  return desc;
}

bool has_bit(std::uint32_t bits, std::size_t at) { return (bits >> at & 1U) != 0; }

class RowSplitter : public ops::Emitter {
 public:
  RowSplitter(const Graph& from, const accel::Device& device) : from_(from), device_(device) {}

  Graph run() {
    map_.resize(from_.values().size());
    for (const Node& node : from_.nodes()) {
      lane_ = node.lane;
      copy(node);
    }
    for (const Output& output : from_.outputs()) {
      if (parts_of(output.value) != nullptr) refuse(cat("the output ", output.name), from_.desc(output.value));
      to_.output(output.name, map_value(from_, output.value, to_, map_));
    }
    return std::move(to_);
  }

  std::vector<Value> emit(const OpCall& call) override {
    auto results = to_.emit(call);
    to_.set_last_lane(lane_);
    return results;
  }
  [[nodiscard]] const TensorDesc& desc(Value value) const override { return to_.desc(value); }
  Value view(Value value, const TensorDesc& desc, std::int64_t offset) override {
    return to_.view(value, desc, offset);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const TensorDesc& desc) const {
    throw Failure(device_error(
        cat(what, ", ", to_string(desc), ", takes ", human_bytes(total_bytes(desc)), ", and ", device_.name(),
            " allocates at most ", human_bytes(device_.info().largest_allocation_bytes), " at a time"),
        "use shorter sequences or a smaller batch, or another --device"));
  }

  // The parts of the value's storage; null where it is whole. Inputs are what the host gives in one piece.
  const std::vector<Part>* parts_of(Value value) {
    const std::int32_t s = from_.info(value).storage;
    const auto [known, is_new] = parts_.try_emplace(s);
    std::vector<Part>& parts = known->second;
    if (is_new) make_parts(from_.storages()[index(s)], parts);
    return parts.empty() ? nullptr : &parts;
  }

  void make_parts(const Storage& storage, std::vector<Part>& parts) {
    if (storage.kind == StorageKind::input) return;
    const auto ranges = row_parts(storage.desc, device_.info(), storage.name);
    if (ranges.size() < 2) return;
    for (const RowRange& rows : ranges) {
      Storage part = storage;
      part.name = part_name(storage.name, rows);
      parts.push_back({rows, to_.source_like(part, part_desc(storage.desc, rows))});
    }
  }

  Operand operand(Value value) {
    if (!value.present()) return {};
    Operand out;
    out.desc = from_.desc(value);
    out.parts = parts_of(value);
    if (out.parts == nullptr) {
      out.value = map_value(from_, value, to_, map_);
      return out;
    }
    out.whole = from_.storage_of(value).desc;
    out.offset = from_.info(value).offset;
    out.row_stride = std::max<std::int64_t>(1, num_elements(out.whole) / std::max<std::int64_t>(1, out.whole.shape[0]));
    return out;
  }

  void copy(const Node& node) {
    Call call{node.call, {}, node.call.outputs};
    for (std::size_t a = 0; a < node.results.size(); ++a) {
      call.in.push_back(operand(node.call.inputs[a]));
      // A fresh output that is too large is put together from its parts.
      if (node.results[a].present() && !call.in[a].present() && parts_of(node.results[a]) != nullptr) {
        call.in[a] = operand(node.results[a]);
      }
    }
    const std::vector<Operand> results = emit_parts(call);
    for (std::size_t a = 0; a < node.results.size(); ++a) {
      if (node.results[a].present()) map_[index(node.results[a].id)] = results[a].value;
    }
  }

  // As one value; none where it lies in several parts.
  std::optional<Value> resolve(const Operand& operand) {
    if (operand.parts == nullptr) return operand.value.present() ? to_.latest(operand.value) : Value{};
    const Part* part = part_with(operand);
    if (part == nullptr) return std::nullopt;
    const Value newest = to_.latest(part->value);
    const std::int64_t offset = operand.offset - part->rows.begin * operand.row_stride;
    const TensorDesc& whole = to_.desc(newest);
    const bool is_whole = offset == 0 && same_shape(whole, operand.desc) &&
                          std::equal(whole.strides, whole.strides + whole.rank, operand.desc.strides);
    return is_whole ? newest : to_.view(newest, operand.desc, offset);
  }

  Operand sliced(const Operand& from, int dim, std::int64_t begin, std::int64_t end) {
    Operand out = from;
    out.desc = slice(from.desc, dim, begin, end);
    if (from.parts == nullptr) {
      out.value = to_.view(to_.latest(from.value), out.desc, begin * from.desc.strides[dim]);
    } else {
      out.offset += begin * from.desc.strides[dim];
    }
    return out;
  }

  static Operand whole(Value value, const TensorDesc& desc) {
    Operand out;
    out.value = value;
    out.desc = desc;
    return out;
  }
  [[nodiscard]] Operand whole(Value value) const { return whole(value, to_.desc(value)); }

  // Emits the call, in as many as its arguments need: outputs are cut first, as a sum is of whole ones. Gives its
  // results.
  std::vector<Operand> emit_parts(const Call& call) {
    for (const bool is_output : {true, false}) {
      for (std::size_t a = 0; a < call.in.size(); ++a) {
        if (is_present(call.out[a]) != is_output || !call.in[a].present()) continue;
        if (!resolve(call.in[a])) return emit_split(call, a);
      }
    }
    OpCall plain = resolved(call);
    const std::vector<Value> results = emit(plain);
    std::vector<Operand> out = call.in;
    for (std::size_t a = 0; a < out.size(); ++a) {
      if (results[a].present()) out[a] = whole(results[a]);
    }
    return out;
  }

  OpCall resolved(const Call& call) {
    OpCall plain = call.like;
    plain.outputs = call.out;
    for (std::size_t a = 0; a < call.in.size(); ++a) plain.inputs[a] = resolve(call.in[a]).value();
    return plain;
  }

  // One call a part, cut where argument `arg` is.
  std::vector<Operand> emit_split(const Call& call, std::size_t arg) {
    const ops::OpSpec& spec = ops::op_spec(call.like.op);
    const auto cannot = [&] {
      refuse(cat("op ", spec.name, " can't be computed in parts: ", spec.args[arg].name), call.in[arg].whole);
    };
    Cut cut = cut_of(call.in[arg]);
    if (cut.dim < 0) cannot();
    std::vector<TensorDesc> descs;
    for (std::size_t a = 0; a < call.in.size(); ++a) {
      descs.push_back(is_present(call.out[a]) ? call.out[a] : call.in[a].desc);
    }
    const auto found =
        ops::op_rules(call.like.op)
            .split({call.like.op, descs, call.like.attrs, call.like.accumulate}, static_cast<int>(arg), cut.dim);
    if (!found || !covers_outputs(*found, call) || cuts_dynamic(*found, descs)) cannot();
    const ops::Split& split = *found;
    if (!has_whole(split, call)) cannot();
    Call all = call;
    for (const auto& [along, dim] : split.along) {
      Operand& operand = all.in[index(along)];
      if (!operand.present() && !is_present(call.out[index(along)])) continue;
      // What is put together from its parts has a place before they are computed.
      if (!operand.present()) operand = whole(to_.buffer(call.out[index(along)]), call.out[index(along)]);
      if (operand.parts == nullptr || resolve(operand)) continue;
      const Cut other = cut_of(operand);
      if (other.dim == dim) cut.borders.insert(other.borders.begin(), other.borders.end());
    }
    std::vector<Call> parts;
    for (auto border = cut.borders.begin(); std::next(border) != cut.borders.end(); ++border) {
      parts.push_back(part_of(all, split, *border, *std::next(border)));
    }
    if (split.complete != nullptr) complete(parts, split);
    emit_all(parts, all, split);
    std::vector<Operand> results = all.in;
    for (Operand& result : results) {
      if (result.value.present()) result.value = to_.latest(result.value);
    }
    return results;
  }

  static bool is_cut(const ops::Split& split, std::size_t a) {
    return std::any_of(split.along.begin(), split.along.end(), [&](auto& at) { return index(at.arg) == a; });
  }
  static bool is_among(const std::vector<int>& args, std::size_t a) {
    return std::any_of(args.begin(), args.end(), [&](int arg) { return index(arg) == a; });
  }

  // Whether every output is cut or summed.
  static bool covers_outputs(const ops::Split& split, const Call& call) {
    for (std::size_t a = 0; a < call.out.size(); ++a) {
      if (is_present(call.out[a]) && !is_cut(split, a) && !is_among(split.sums, a)) return false;
    }
    return true;
  }

  // Whether what the parts must know of one another, and the indices, are whole.
  bool has_whole(const ops::Split& split, const Call& call) {
    for (std::size_t a = 0; a < call.in.size(); ++a) {
      const bool is_needed = split.complete != nullptr || is_among(split.indices, a);
      if (is_needed && !is_cut(split, a) && !resolve(call.in[a])) return false;
    }
    return true;
  }

  static bool cuts_dynamic(const ops::Split& split, const std::vector<TensorDesc>& descs) {
    return std::any_of(split.along.begin(), split.along.end(), [&](const ops::Split::Along& at) {
      const TensorDesc& desc = descs[index(at.arg)];
      return is_present(desc) && desc.dynamic_dim == at.dim;
    });
  }

  Call part_of(const Call& all, const ops::Split& split, std::int64_t begin, std::int64_t end) {
    Call part = all;
    for (const auto& [along, dim] : split.along) {
      const auto a = index(along);
      if (!all.in[a].present()) continue;
      part.in[a] = sliced(all.in[a], dim, begin, end);
      if (is_present(all.out[a])) part.out[a] = slice(all.out[a], dim, begin, end);
    }
    for (const int a : split.indices) {
      Operand& ids = part.in[index(a)];
      ids.value = ops::shard_index(*this, resolve(ids).value(), begin, end - begin, all.like.needs);
      ids.desc = to_.desc(ids.value);
    }
    for (const int a : split.once) {
      if (begin > 0) part.in[index(a)] = {};
    }
    return part;
  }

  void complete(std::vector<Call>& parts, const ops::Split& split) {
    std::vector<OpCall> calls;
    for (const Call& part : parts) calls.push_back(resolved(part));
    split.complete(*this, calls);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (std::size_t a = 0; a < calls[p].inputs.size(); ++a) {
        if (parts[p].in[a].present() || !calls[p].inputs[a].present()) continue;
        parts[p].in[a] = whole(calls[p].inputs[a]);
      }
    }
  }

  // What a sum of parts is held in: the output itself where its dtype is that of sums, else fp32, rounded at the end.
  static bool sums_in_place(const ops::OpSpec& spec, const TensorDesc& out, std::size_t a) {
    return (spec.args[a].flags & ops::kAccumulate) != 0 &&
           (out.dtype == TERN_F32 || spec.args[a].dtypes != ops::Dtypes::floating);
  }

  // The parts one after another; outputs that are sums go on from part to part, and their results replace `all.in`.
  void emit_all(std::vector<Call>& parts, Call& all, const ops::Split& split) {
    const ops::OpSpec& spec = ops::op_spec(all.like.op);
    std::map<std::size_t, Value> sums;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      for (const int s : split.sums) prepare_sum(parts[p], spec, index(s), sums);
      const std::vector<Operand> results = emit_parts(parts[p]);
      for (const int s : split.sums) {
        const auto a = index(s);
        if (is_present(all.out[a])) add_to_sum(parts[p], results[a].value, a, sums);
      }
    }
    for (const auto& [a, sum] : sums) finish_sum(all, a, sum);
  }

  void prepare_sum(Call& part, const ops::OpSpec& spec, std::size_t a, const std::map<std::size_t, Value>& sums) const {
    if (!is_present(part.out[a])) return;
    const auto earlier = sums.find(a);
    const std::uint32_t bit = 1U << a;
    if (sums_in_place(spec, part.out[a], a)) {
      if (earlier == sums.end()) return;  // as the whole call has it
      part.like.accumulate |= bit;
      part.in[a] = whole(earlier->second);
      part.out[a] = to_.desc(earlier->second);
      return;
    }
    const bool narrows = spec.args[a].dtypes == ops::Dtypes::floating;
    part.out[a] = ops::like(part.out[a], narrows ? TERN_F32 : part.out[a].dtype);
    part.in[a] = {};
    part.like.accumulate &= ~bit;
  }

  void add_to_sum(const Call& part, Value made, std::size_t a, std::map<std::size_t, Value>& sums) {
    const auto earlier = sums.find(a);
    if (earlier == sums.end() || has_bit(part.like.accumulate, a)) {
      sums[a] = made;
    } else {
      const auto dtype = static_cast<tern_dtype>(to_.desc(made).dtype);
      earlier->second = ops::axpby(*this, earlier->second, made, {.out = dtype, .needs = part.like.needs});
    }
  }

  // Where the whole call has its output: fresh, at a place, or added to what was there.
  void finish_sum(Call& all, std::size_t a, Value sum) {
    Operand& into = all.in[a];
    const TensorDesc& out = all.out[a];
    const Value place = into.present() ? resolve(into).value() : Value{};
    const bool is_there = place.present() && to_.info(place).storage == to_.info(sum).storage;
    if (!is_there && (place.present() || to_.desc(sum).dtype != out.dtype)) {
      ops::CastCopyOptions options = {.out = static_cast<tern_dtype>(out.dtype), .needs = all.like.needs};
      (has_bit(all.like.accumulate, a) ? options.into : options.at) = place;
      sum = ops::cast_copy(*this, sum, options);
    }
    into = whole(sum);
  }

  const Graph& from_;
  const accel::Device& device_;
  Graph to_;
  std::vector<Value> map_;                           // of values whose storage is whole
  std::map<std::int32_t, std::vector<Part>> parts_;  // by storage; none: it is whole
  Lane lane_ = Lane::compute;
};

bool is_too_large(const Storage& storage, const accel::Device& device) {
  return storage.kind != StorageKind::input && row_parts(storage.desc, device.info(), storage.name).size() > 1;
}

}  // namespace

Graph split_rows(const Graph& graph, const accel::Device& device) {
  const auto storages = graph.storages();
  const bool needed = std::any_of(storages.begin(), storages.end(),
                                  [&](const Storage& storage) { return is_too_large(storage, device); });
  return needed ? RowSplitter(graph, device).run() : graph;
}

}  // namespace tern::graph
