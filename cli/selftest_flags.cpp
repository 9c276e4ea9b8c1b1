#include "cli/selftest_flags.h"

#include "base/strings.h"
#include "ops/facts.h"

namespace tern::cli {

std::vector<std::uint32_t> ops_of(const Arguments& arguments) {
  std::vector<std::uint32_t> out;
  for (const std::string& name : arguments.list("op")) {
    const ops::OpSpec* spec = ops::find_op(name);
    if (spec == nullptr) {
      std::vector<std::string> names;
      for (const ops::OpSpec& op : ops::op_table()) names.emplace_back(op.name);
      const std::string close = nearest(name, names);
      throw Failure(usage_error(cat("no op is called ", name), close.empty() ? cat("choose one of ", join(names, ", "))
                                                                             : cat("did you mean ", close, "?")));
    }
    out.push_back(spec->id);
  }
  return out;
}

std::uint32_t required_by(const Arguments& arguments) {
  std::uint32_t out = 0;
  for (const std::string& words : arguments.list("require")) {
    for (const std::string_view word : split(words, ',')) {
      const auto command = ops::find_command(word);
      if (!command) {
        throw Failure(usage_error(cat("--require is \"", word, "\", and must be infer, train or serve"),
                                  "for example --require infer,train"));
      }
      out |= *command;
    }
  }
  return out;
}

}  // namespace tern::cli
