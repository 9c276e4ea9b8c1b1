#include "ops/check.h"

#include <algorithm>
#include <vector>

#include "base/dtype.h"
#include "ops/program_ops.h"
#include "ops/ref/packing.h"
#include "ops/rules.h"

namespace tern::ops {
namespace {

class Shapes {
 public:
  std::string add(const ArgSpec& arg, const TensorDesc& desc) {
    const Shape& shape = arg.shape;
    if (shape.is_checked_by_op()) return {};
    if (shape.is_open() ? desc.rank < shape.count() : desc.rank != shape.count()) {
      return cat(arg.name, ": expected ", shape.text, ", found rank ", desc.rank);
    }
    for (int d = 0; d < shape.count(); ++d) {
      if (std::string problem = bind(arg, shape[d], desc.shape[d]); !problem.empty()) return problem;
    }
    return shape.is_open() ? bind_rest(arg, desc, shape.count()) : std::string();
  }

 private:
  struct Bound {
    std::string_view name;
    std::int64_t value;
  };

  std::string bind(const ArgSpec& arg, const Shape::Dimension& dim, std::int64_t value) {
    if (dim.name.empty()) {
      return require(value == dim.number, cat(arg.name, ": expected ", arg.shape.text, ", found ", value));
    }
    value -= dim.number;
    if (value < 0) return cat(arg.name, ": expected ", arg.shape.text, ", found too few entries");
    const auto at = std::find_if(bound_.begin(), bound_.end(), [&](const Bound& b) { return b.name == dim.name; });
    if (at == bound_.end()) {
      bound_.push_back({dim.name, value});
      return {};
    }
    return require(at->value == value, cat(arg.name, ": expected ", dim.name, " = ", at->value,
                                           " as in an earlier argument, found ", value));
  }

  std::string bind_rest(const ArgSpec& arg, const TensorDesc& desc, int from) {
    std::vector<std::int64_t> rest(desc.shape + from, desc.shape + desc.rank);
    if (!rest_known_) {
      rest_known_ = true;
      rest_ = rest;
    }
    return require(rest == rest_,
                   cat(arg.name, ": its shape ", to_string(desc), " differs from an earlier argument's"));
  }

  std::vector<Bound> bound_;
  std::vector<std::int64_t> rest_;
  bool rest_known_ = false;
};

bool dtype_allowed(Dtypes allowed, tern_dtype dtype) {
  switch (allowed) {
    case Dtypes::any:
    case Dtypes::as_x:
      return dtype >= 0 && dtype < TERN_DTYPE_COUNT;
    case Dtypes::floating:
      return dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16;
    case Dtypes::cached:
      return dtype_allowed(Dtypes::floating, dtype) || dtype == TERN_I8 || dtype == TERN_F8_E4M3;
    case Dtypes::f32:
      return dtype == TERN_F32;
    case Dtypes::i32:
      return dtype == TERN_I32;
    case Dtypes::i64:
      return dtype == TERN_I64;
    case Dtypes::u8:
      return dtype == TERN_U8;
    case Dtypes::u32:
      return dtype == TERN_U32;
    case Dtypes::boolean:
      return dtype == TERN_BOOL;
  }
  return false;
}

std::string check_quantised(const ArgSpec& arg, const TensorDesc& desc) {
  if ((arg.flags & kQuantised) == 0) return cat(arg.name, ": expected an unquantised tensor, found ", to_string(desc));
  if (!ref::packing_is_known(desc.scheme)) return cat(arg.name, ": the packing of ", to_string(desc), " is not known");
  const BlockSize block = packing_block(desc.scheme.packing);
  if (desc.rank != 2) return cat(arg.name, ": a quantised tensor has 2 dimensions");
  return require(block.elements == 0 || desc.shape[1] % block.elements == 0,
                 cat(arg.name, ": expected rows of whole blocks of ", block.elements, ", found ", desc.shape[1]));
}

std::string check_desc(const ArgSpec& arg, const TensorDesc& desc) {
  if (desc.rank < 0 || desc.rank > TERN_MAX_RANK) return cat(arg.name, ": rank ", desc.rank);
  if (!dtype_allowed(arg.dtypes, desc.dtype)) {
    const bool known = desc.dtype >= 0 && desc.dtype < TERN_DTYPE_COUNT;
    return cat(arg.name, ": expected ", name_of(arg.dtypes), ", found ",
               known ? dtype_name(desc.dtype) : "no known dtype");
  }
  if (desc.dynamic_dim >= desc.rank || desc.count_slot >= TERN_MAX_COUNTS)
    return cat(arg.name, ": bad dynamic dimension");
  if (desc.layout != 0 && (arg.flags & kPackable) == 0) return cat(arg.name, ": a private layout is not allowed here");
  for (int d = 0; d < desc.rank; ++d) {
    if (desc.shape[d] < 0) return cat(arg.name, ": negative size in ", to_string(desc));
    if (desc.layout != 0 || is_quantised(desc)) continue;
    if (desc.strides[d] < 0) return cat(arg.name, ": negative stride in ", to_string(desc));
    if (arg.role != Role::input && desc.shape[d] > 1 && desc.strides[d] == 0) {
      return cat(arg.name, ": an output's elements must not share memory: ", to_string(desc));
    }
  }
  if (is_integer(arg.dtypes) && arg.dtypes != Dtypes::boolean && !is_contiguous(desc)) {
    return cat(arg.name, ": expected contiguous integers, found ", to_string(desc));
  }
  return is_quantised(desc) ? check_quantised(arg, desc) : std::string();
}

}  // namespace

std::string check_shapes(const OpSpec& spec, Args args) {
  Shapes shapes;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_present(args[i])) continue;
    if (std::string problem = shapes.add(spec.args[i], args[i]); !problem.empty()) return problem;
  }
  return {};
}

std::string check_call(std::uint32_t op, std::span<const TensorDesc> args, std::span<const std::byte> attrs,
                       std::uint32_t accumulate) {
  if (op == 0 || (op >= TERN_OP_LIMIT && !is_program_op(op))) return cat("no op has the id ", op);
  const OpSpec& spec = op_spec(op);
  if (args.size() != spec.args.size()) {
    return cat(spec.name, ": expected ", spec.args.size(), " arguments, found ", args.size());
  }
  if (attrs.size() < spec.attrs.size() * 4) return cat(spec.name, ": attributes are cut short");
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArgSpec& arg = spec.args[i];
    const bool adds = (accumulate >> i & 1U) != 0;
    if (adds && (arg.flags & kAccumulate) == 0) return cat(spec.name, ": ", arg.name, " cannot accumulate");
    if (!is_present(args[i])) {
      if ((arg.flags & kOptional) == 0) return cat(spec.name, ": ", arg.name, " is absent");
      if (adds) return cat(spec.name, ": ", arg.name, " accumulates but is absent");
      continue;
    }
    if (std::string problem = check_desc(arg, args[i]); !problem.empty()) return cat(spec.name, ": ", problem);
  }
  if (args.size() < 32 && (accumulate >> args.size()) != 0) return cat(spec.name, ": accumulate names no argument");
  std::string problem = check_shapes(spec, args);
  if (const auto own = op_rules(op).check; problem.empty() && own != nullptr) problem = own(args, attrs);
  return problem.empty() ? problem : cat(spec.name, ": ", problem);
}

}  // namespace tern::ops
