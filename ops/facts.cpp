#include "ops/facts.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace tern::ops {
namespace {

struct Command {
  std::string_view word;
  NeededBy bit;
};
constexpr std::array<Command, 3> kCommands = {{{"infer", kInfer}, {"train", kTrain}, {"serve", kServe}}};

}  // namespace

bool CallDesc::writes(int arg) const {
  return has(arg) && op_spec(op).args[static_cast<std::size_t>(arg)].role != Role::input;
}

bool CallDesc::reads(int arg) const {
  return has(arg) &&
         (op_spec(op).args[static_cast<std::size_t>(arg)].role != Role::output || (accumulate >> arg & 1U) != 0);
}

double no_products(const CallDesc&, HostArrays) { return 0; }

double each_argument_once(const CallDesc& call, int arg, HostArrays) {
  return whole_bytes(call, arg) * (call.reads(arg) && call.writes(arg) ? 2 : 1);
}

double whole_bytes(const CallDesc& call, int arg) {
  const TensorDesc& desc = call[arg];
  if (!is_present(desc) || num_elements(desc) == 0) return 0;
  if (is_quantised(desc)) return static_cast<double>(total_bytes(desc));
  return static_cast<double>(total_bytes(make_desc(desc.dtype, shape_of(desc))));  // no gaps of strides
}

double bytes_of_rows(const CallDesc& call, int table, int index) {
  const auto rows = static_cast<double>(std::max<std::int64_t>(call[table].shape[0], 1));
  return whole_bytes(call, table) / rows * static_cast<double>(num_elements(call[index]));
}

std::uint32_t no_weights(const CallDesc&, int) { return 0; }

std::uint32_t product_use(bool transposed) { return transposed ? TERN_USE_FORWARD : TERN_USE_INPUT_GRAD; }

int no_rows(const CallDesc&, int) { return -1; }

int first_dimension(const CallDesc&, int) { return 0; }

int named_rows(const CallDesc& call, int arg) {
  return op_spec(call.op).args[static_cast<std::size_t>(arg)].shape.find("rows");
}

std::optional<Split> no_split(const CallDesc&, int, int) { return std::nullopt; }

std::optional<Split> by_name(const CallDesc& call, int arg, int dim) {
  const auto args = op_spec(call.op).args;
  const Shape& shape = args[static_cast<std::size_t>(arg)].shape;
  const bool is_named = dim < shape.count();
  if (is_named && shape[dim].name.empty()) return std::nullopt;  // of one size in every call
  Split split;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!call.has(static_cast<int>(i))) continue;
    const Shape& other = args[i].shape;
    const int at = is_named ? other.find(shape[dim].name) : other.is_open() ? dim - shape.count() + other.count() : -1;
    if (at >= 0) split.along.push_back({static_cast<int>(i), at});
  }
  return split;
}

Split split_product(std::span<const std::string_view> letters, int arg, int dim, int bias, int out) {
  const char letter = letters[static_cast<std::size_t>(arg)][static_cast<std::size_t>(dim)];
  Split split;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto at = letters[i].find(letter);
    if (at != std::string_view::npos) split.along.push_back({static_cast<int>(i), static_cast<int>(at)});
  }
  if (letter == 'k') {
    split.sums = {out};
    split.once = {bias};
  }
  return split;
}

Indices no_indices(const CallDesc&) { return {}; }

std::optional<NeededBy> find_command(std::string_view word) {
  for (const Command& command : kCommands) {
    if (command.word == word) return command.bit;
  }
  return std::nullopt;
}

std::string command_words(std::uint32_t commands) {
  std::vector<std::string> words;
  for (const Command& command : kCommands) {
    if ((commands & command.bit) != 0) words.emplace_back(command.word);
  }
  return join(words, ", ");
}

}  // namespace tern::ops
