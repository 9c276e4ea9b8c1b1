// Writes include/tern/accel_ops.h from the op table to standard output; script/generate keeps the committed copy
// current.
#include <cctype>
#include <iostream>
#include <string>

#include "ops/table.h"

namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

const char* role_name(tern::ops::Role role) {
  switch (role) {
    case tern::ops::Role::input:
      return "in";
    case tern::ops::Role::output:
      return "out";
    case tern::ops::Role::state:
      return "in/out";
  }
  return "";
}

void write_op(const tern::ops::OpSpec& op) {
  const std::string name = upper(op.name);
  std::cout << "\n/* " << op.name << ": " << op.formula << "\n";
  for (const auto& arg : op.args) {
    std::cout << " *   " << role_name(arg.role) << " " << arg.name << " " << arg.shape.text << " "
              << name_of(arg.dtypes);
    if (arg.flags & tern::ops::kOptional) std::cout << ", optional";
    if (arg.flags & tern::ops::kLengths) std::cout << ", lengths: also in host_args";
    if (arg.flags & tern::ops::kAccumulate) std::cout << ", may accumulate";
    if (arg.flags & tern::ops::kQuantised) std::cout << ", may be quantised";
    if (arg.flags & tern::ops::kPackable) std::cout << ", may have a private layout";
    std::cout << "\n";
  }
  std::cout << " */\nenum {\n  TERN_OP_" << name << " = " << op.id << ",\n";
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    std::cout << "  TERN_" << name << "_" << upper(op.args[i].name) << " = " << i << ",\n";
  }
  std::cout << "  TERN_" << name << "_NUM_ARGS = " << op.args.size() << "\n};\n";
  if (op.attrs.empty()) return;
  std::cout << "typedef struct tern_" << op.name << "_attrs {\n";
  for (const auto& attr : op.attrs) {
    std::cout << "  " << (attr.type == tern::ops::AttrType::f32 ? "float" : "int32_t") << " " << attr.name << "; /* "
              << attr.meaning << " */\n";
  }
  std::cout << "} tern_" << op.name << "_attrs;\n";
}

}  // namespace

int main() {
  std::cout
      << "/* Generated from ops/table.cpp by script/generate: do not edit.\n"
         " * Shapes are row-major, the last dimension first in memory unless strides say otherwise. Matrix products\n"
         " * accumulate in fp32; norms, softmax and losses compute in fp32; reductions have a fixed order. */\n"
         "#ifndef TERN_ACCEL_OPS_H\n#define TERN_ACCEL_OPS_H\n\n#include <stdint.h>\n\n"
         "typedef enum tern_act {\n  TERN_ACT_SILU = 0,\n  TERN_ACT_GELU_TANH = 1,\n  TERN_ACT_GELU_ERF = 2,\n"
         "  TERN_ACT_SIGMOID = 3,\n  TERN_ACT_SOFTPLUS = 4, /* log(1 + exp(x)) */\n  TERN_ACT_EXP = 5,\n"
         "  TERN_ACT_QUICK_GELU = 6 /* x sigmoid(1.702 x) */\n} tern_act;\n";
  for (const auto& op : tern::ops::op_table()) write_op(op);
  std::cout << "\nenum { TERN_OP_LIMIT = " << tern::ops::op_table().back().id + 1 << " }; /* ids are below */\n";
  std::cout << "\n/* X(ID, name) for every op, in the order of the ids: TERN_OP_<ID>, and the name in lower case. */\n"
               "#define TERN_FOR_EACH_OP(X)";
  for (const auto& op : tern::ops::op_table()) std::cout << " \\\n  X(" << upper(op.name) << ", " << op.name << ")";
  std::cout << "\n\n#endif\n";
  return 0;
}
