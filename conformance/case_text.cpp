// The text of a failing case. One thing a line, tensors as `arg`, their `scheme` and `plane`s:
//   tern case 1
//   op <name>
//   label <text>
//   attr <name> <value>
//   accumulate <bits>
//   needs <bits>
//   special <0 or 1>
//   any_tails <0 or 1>
//   counts <4 numbers>
//   arg <name> <dtype> <rank> <shape...> <strides...> <dynamic_dim> <count_slot> <alias> <packed>
//   scheme <packing> <bits> <group_rows> <group_cols> <scale dtype> <flags>
//   plane <number> <hexadecimal bytes>
//   end
// `packed` is 0, 1, or 2 for both uses.
#include <charconv>
#include <cstring>

#include "base/dtype.h"
#include "base/strings.h"
#include "conformance/case.h"
#include "conformance/index_check.h"
#include "ops/rules.h"

namespace tern::conformance {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr const char* kAgain = "write the file again with tern selftest";

std::string hex(const Bytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte byte : bytes) {
    out += kDigits[std::to_integer<unsigned>(byte) >> 4];
    out += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return out;
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& file) : file_(file), lines_(split(text, '\n')) {}

  Case read() {
    if (next() != "tern case 1") fail("the line \"tern case 1\"", "this file is no case of tern selftest");
    bool ended = false;
    while (!ended) {
      line_ = next();
      const auto words = split(line_, ' ');
      ended = words[0] == "end";
      if (!ended) take(words);
    }
    finish();
    return std::move(case_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& mend = kAgain) {
    throw Failure(data_error(cat(file_, ":", number_), expected, cat("\"", line_.substr(0, 60), "\""), mend));
  }
  std::string_view next() {
    if (number_ >= lines_.size()) fail("more lines");
    line_ = lines_[number_++];
    return line_;
  }
  template <typename Number>
  Number number(std::string_view word, const char* what) {
    Number value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) fail(what);
    return value;
  }
  std::int64_t integer(const std::vector<std::string_view>& words, std::size_t at) {
    if (at >= words.size()) fail("more numbers");
    return number<std::int64_t>(words[at], "a number");
  }

  void take(const std::vector<std::string_view>& words) {
    if (words.size() < 2) fail("a word and its value");
    if (words[0] == "op") {
      const ops::OpSpec* spec = ops::find_op(words[1]);
      if (spec == nullptr) fail("an op of this version of tern");
      case_.op = spec->id;
      case_.args.resize(spec->args.size());
      case_.alias.assign(spec->args.size(), -1);
      case_.attrs.assign(spec->attrs.size() * 4, std::byte{0});
      return;
    }
    if (case_.op == 0) fail("the op first");
    if (words[0] == "label") {
      case_.label = line_.substr(6);
    } else if (words[0] == "attr") {
      attr(words);
    } else if (words[0] == "accumulate") {
      case_.accumulate = static_cast<std::uint32_t>(integer(words, 1));
    } else if (words[0] == "needs") {
      case_.needs = static_cast<std::uint32_t>(integer(words, 1));
    } else if (words[0] == "special") {
      case_.special = integer(words, 1) != 0;
    } else if (words[0] == "any_tails") {
      case_.any_tails = integer(words, 1) != 0;
    } else if (words[0] == "counts") {
      for (std::size_t i = 0; i < case_.counts.size(); ++i) case_.counts[i] = integer(words, i + 1);
    } else if (words[0] == "arg") {
      arg(words);
    } else if (words[0] == "scheme") {
      scheme(words);
    } else if (words[0] == "plane") {
      plane(words);
    } else {
      fail("one of the words of a case");
    }
  }

  void attr(const std::vector<std::string_view>& words) {
    if (words.size() != 3) fail("an attribute's name and value");
    const auto& attrs = case_.spec().attrs;
    for (std::size_t i = 0; i < attrs.size(); ++i) {
      if (attrs[i].name != words[1]) continue;
      if (attrs[i].type == ops::AttrType::i32) {
        const auto value = number<std::int32_t>(words[2], "a whole number");
        std::memcpy(case_.attrs.data() + 4 * i, &value, 4);
      } else {
        const auto value = number<float>(words[2], "a number");
        std::memcpy(case_.attrs.data() + 4 * i, &value, 4);
      }
      return;
    }
    fail("an attribute of the op");
  }

  void arg(const std::vector<std::string_view>& words) {
    if (words.size() < 4) fail("an argument's name, dtype and rank");
    const int index = case_.spec().arg_index(words[1]);
    if (index < 0) fail("an argument of the op");
    current_ = static_cast<std::size_t>(index);
    const auto dtype = dtype_from_name(words[2]);
    if (!dtype) fail("a dtype");
    TensorDesc desc = absent_desc();
    desc.dtype = *dtype;
    desc.rank = static_cast<std::int32_t>(integer(words, 3));
    if (desc.rank < 1 || desc.rank > TERN_MAX_RANK) fail("a rank of 1 to 6");
    std::size_t at = 4;
    double span = 1.0;
    for (int d = 0; d < desc.rank; ++d) desc.shape[d] = integer(words, at++);
    for (int d = 0; d < desc.rank; ++d) desc.strides[d] = integer(words, at++);
    for (int d = 0; d < desc.rank; ++d) {
      if (desc.shape[d] < 0 || desc.shape[d] > kLargestSize || desc.strides[d] < 0 || desc.strides[d] > kLargestSize)
        fail("sizes and strides of 0 to 2^31");
      span += static_cast<double>(desc.shape[d]) * static_cast<double>(desc.strides[d]);
    }
    if (span >= static_cast<double>(kLargestSize)) fail("a tensor of less than 2^31 elements");
    desc.dynamic_dim = static_cast<std::int8_t>(integer(words, at++));
    desc.count_slot = static_cast<std::uint8_t>(integer(words, at++));
    if (desc.dynamic_dim < -1 || desc.dynamic_dim >= desc.rank || desc.count_slot >= TERN_MAX_COUNTS)
      fail("a dynamic dimension and its slot");
    const std::int64_t alias = integer(words, at++);
    if (alias < -1 || alias >= static_cast<std::int64_t>(case_.args.size())) fail("an argument's number or -1");
    case_.alias[current_] = static_cast<std::int8_t>(alias);
    case_.args[current_].both_uses = integer(words, at) == 2;
    case_.args[current_].packed = integer(words, at++) != 0;
    case_.args[current_].desc = desc;
  }

  void scheme(const std::vector<std::string_view>& words) {
    if (!is_present(case_.args[current_].desc)) fail("an arg first");
    tern_scheme scheme{};
    scheme.packing = static_cast<tern_packing>(integer(words, 1));
    scheme.bits = static_cast<std::int32_t>(integer(words, 2));
    scheme.group_rows = static_cast<std::int32_t>(integer(words, 3));
    scheme.group_cols = static_cast<std::int32_t>(integer(words, 4));
    scheme.scale_dtype = static_cast<tern_dtype>(integer(words, 5));
    if (scheme.scale_dtype < 0 || scheme.scale_dtype >= TERN_DTYPE_COUNT) fail("a scale's dtype");
    scheme.flags = static_cast<std::int32_t>(integer(words, 6));
    case_.args[current_].desc.scheme = scheme;
  }

  void plane(const std::vector<std::string_view>& words) {
    const std::int64_t index = integer(words, 1);
    if (index < 0 || index >= TERN_MAX_PLANES) fail("a plane of 0 to 3");
    const std::string_view digits = words.size() > 2 ? words[2] : std::string_view();
    if (digits.size() % 2 != 0) fail("whole bytes");
    Bytes& bytes = case_.args[current_].planes[static_cast<std::size_t>(index)];
    bytes.resize(digits.size() / 2);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      unsigned value = 0;
      const auto [end, error] = std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
      if (error != std::errc() || end != digits.data() + 2 * i + 2) fail("hexadecimal digits");
      bytes[i] = static_cast<std::byte>(value);
    }
  }

  void finish() {
    if (case_.op == 0) fail("an op");
    const accel::OpDesc desc = op_desc(case_);
    const std::string problem = ops::check_call(desc.op, desc.args, desc.attrs, desc.accumulate);
    if (!problem.empty()) fail(cat("a call that keeps the op's contract (", problem, ")"));
    for (std::size_t i = 0; i < case_.args.size(); ++i) {
      const Argument& arg = case_.args[i];
      const PlaneBytes need = is_present(arg.desc) ? plane_bytes(arg.desc) : PlaneBytes{};
      for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
        if (arg.planes[p].size() != need.bytes[p])
          fail(cat(need.bytes[p], " bytes in plane ", p, " of ", case_.spec().args[i].name));
      }
    }
    const std::string index = index_problem(case_);
    if (!index.empty()) fail(cat("indices within their bounds (", index, ")"));
  }

  std::string file_;
  std::vector<std::string_view> lines_;
  std::size_t number_ = 0;
  std::string_view line_;
  Case case_;
  std::size_t current_ = 0;
};

}  // namespace

std::string write_case(const Case& c) {
  const ops::OpSpec& spec = c.spec();
  std::string out = cat("tern case 1\nop ", spec.name, "\nlabel ", c.label, "\n");
  for (std::size_t i = 0; i < spec.attrs.size(); ++i) {
    std::int32_t whole = 0;
    float real = 0.0F;
    std::memcpy(&whole, c.attrs.data() + 4 * i, 4);
    std::memcpy(&real, c.attrs.data() + 4 * i, 4);
    out += cat("attr ", spec.attrs[i].name, " ");
    out += spec.attrs[i].type == ops::AttrType::i32 ? cat(whole) : cat(static_cast<double>(real));
    out += '\n';
  }
  out += cat("accumulate ", c.accumulate, "\nneeds ", c.needs, "\nspecial ", c.special ? 1 : 0, "\nany_tails ",
             c.any_tails ? 1 : 0, "\ncounts");
  for (std::int64_t count : c.counts) out += cat(" ", count);
  out += '\n';
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const TensorDesc& desc = c.args[i].desc;
    if (!is_present(desc)) continue;
    out += cat("arg ", spec.args[i].name, " ", dtype_name(desc.dtype), " ", desc.rank);
    for (int d = 0; d < desc.rank; ++d) out += cat(" ", desc.shape[d]);
    for (int d = 0; d < desc.rank; ++d) out += cat(" ", desc.strides[d]);
    out += cat(" ", static_cast<int>(desc.dynamic_dim), " ", static_cast<int>(desc.count_slot), " ",
               static_cast<int>(c.alias.empty() ? -1 : c.alias[i]), " ",
               c.args[i].both_uses ? 2
               : c.args[i].packed  ? 1
                                   : 0,
               "\n");
    if (is_quantised(desc)) {
      out += cat("scheme ", desc.scheme.packing, " ", desc.scheme.bits, " ", desc.scheme.group_rows, " ",
                 desc.scheme.group_cols, " ", desc.scheme.scale_dtype, " ", desc.scheme.flags, "\n");
    }
    for (std::size_t p = 0; p < TERN_MAX_PLANES; ++p) {
      if (!c.args[i].planes[p].empty()) out += cat("plane ", p, " ", hex(c.args[i].planes[p]), "\n");
    }
  }
  return out + "end\n";
}

Result<Case> read_case(const std::string& text, const std::string& file) {
  return catching([&] { return Reader(text, file).read(); });
}

}  // namespace tern::conformance
