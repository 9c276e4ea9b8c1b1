#include "ops/check.h"

#include <cctype>
#include <map>
#include <vector>

#include "base/dtype.h"
#include "ops/ref/packing.h"
#include "ops/rules.h"

namespace tern::ops {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// "[rows, in]: more" -> {"rows", "in"}; none where the text gives alternatives, which the op's own check knows.
std::vector<std::string_view> dimension_names(std::string_view text) {
  for (std::string_view word : {" or ", " if ", "axis", "batched"}) {
    if (contains(text, word)) return {};
  }
  const std::size_t end = text.find(']');
  if (text.empty() || text[0] != '[' || end == std::string_view::npos) return {};
  std::vector<std::string_view> names;
  for (std::string_view name : split(text.substr(1, end - 1), ',')) names.push_back(trim(name));
  return names;
}

class Shapes {
 public:
  std::string add(const ArgSpec& arg, const TensorDesc& desc) {
    const auto names = dimension_names(arg.shape);
    if (names.empty()) return {};
    const bool open = names.back() == "...";
    const auto fixed = static_cast<int>(names.size()) - (open ? 1 : 0);
    if (open ? desc.rank < fixed : desc.rank != fixed) {
      return cat(arg.name, ": expected ", arg.shape, ", found rank ", desc.rank);
    }
    for (int d = 0; d < fixed; ++d) {
      if (std::string problem = bind(arg, names[static_cast<std::size_t>(d)], desc.shape[d]); !problem.empty())
        return problem;
    }
    return open ? bind_rest(arg, desc, fixed) : std::string();
  }

 private:
  std::string bind(const ArgSpec& arg, std::string_view name, std::int64_t value) {
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      const std::string want(name);
      return require(cat(value) == want, cat(arg.name, ": expected ", arg.shape, ", found ", value));
    }
    std::string key(name);
    if (const std::size_t plus = name.find(" + "); plus != std::string_view::npos) {
      key = name.substr(0, plus);
      value -= std::stoll(std::string(name.substr(plus + 3)));
      if (value < 0) return cat(arg.name, ": expected ", arg.shape, ", found too few entries");
    }
    const auto [at, fresh] = bound_.try_emplace(key, value);
    return require(fresh || at->second == value,
                   cat(arg.name, ": expected ", key, " = ", at->second, " as in an earlier argument, found ", value));
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

  std::map<std::string, std::int64_t> bound_;
  std::vector<std::int64_t> rest_;
  bool rest_known_ = false;
};

bool dtype_allowed(const ArgSpec& arg, tern_dtype dtype) {
  if (arg.dtypes == "any" || arg.dtypes == "as x") return dtype >= 0 && dtype < TERN_DTYPE_COUNT;
  if (arg.dtypes == "float") return dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16;
  return dtype >= 0 && dtype < TERN_DTYPE_COUNT && dtype_name(dtype) == arg.dtypes;
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
  if (!dtype_allowed(arg, desc.dtype)) {
    const bool known = desc.dtype >= 0 && desc.dtype < TERN_DTYPE_COUNT;
    return cat(arg.name, ": expected ", arg.dtypes, ", found ", known ? dtype_name(desc.dtype) : "no known dtype");
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
  if (op == 0 || op >= TERN_OP_LIMIT) return cat("no op has the id ", op);
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
