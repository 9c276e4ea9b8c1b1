// Writes include/tern/accel_signatures.h from the op table to standard output; script/generate keeps the committed copy
// current.
#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>

#include "ops/table.h"

namespace {

constexpr const char* kHead = R"(/* Generated from ops/table.cpp by script/generate: do not edit.
 * What tern/accel_ops.h says of each op's arguments in comments, as a table: for the checks that every backend makes
 * (tern/plugin.h). C11 and C++; a source pays for the table only if it reads it. */
/* clang-format off */
#ifndef TERN_ACCEL_SIGNATURES_H
#define TERN_ACCEL_SIGNATURES_H

#include <stdint.h>

#include "tern/accel.h"
#include "tern/accel_ops.h"

enum { /* tern_arg_signature.role */
  TERN_ROLE_INPUT = 0,
  TERN_ROLE_OUTPUT = 1, /* written; added to if the desc's `accumulate` bit is set */
  TERN_ROLE_STATE = 2   /* read and written in place */
};

enum { /* tern_arg_signature.flags */
  TERN_ARG_OPTIONAL = 1u << 0,   /* may be absent: rank 0 */
  TERN_ARG_LENGTHS = 1u << 1,    /* also in host_args */
  TERN_ARG_ACCUMULATE = 1u << 2, /* may be asked to accumulate */
  TERN_ARG_QUANTISED = 1u << 3,  /* may have a packing */
  TERN_ARG_PACKABLE = 1u << 4    /* may have a private layout */
};

enum { /* tern_arg_signature.dtypes: bit per tern_dtype */
  TERN_DTYPES_ANY = (1u << TERN_DTYPE_COUNT) - 1u,
  TERN_DTYPES_FLOAT = 1u << TERN_F32 | 1u << TERN_F16 | 1u << TERN_BF16,
  TERN_DTYPES_CACHED = TERN_DTYPES_FLOAT | 1u << TERN_I8 | 1u << TERN_F8_E4M3
};

typedef struct tern_arg_signature {
  const char* name;
  uint32_t dtypes;
  uint8_t role;
  uint8_t flags;
  int8_t dtype_as; /* its dtype is that of the argument with this number; -1: of none */
} tern_arg_signature;

typedef struct tern_op_signature {
  uint32_t op; /* TERN_OP_* */
  uint32_t num_args;
  uint32_t attrs_size; /* bytes of tern_<op>_attrs; 0: there are none */
  const char* name;
  const tern_arg_signature* args; /* in the order of tern_op_desc.args */
} tern_op_signature;
)";

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

const char* role_of(tern::ops::Role role) {
  switch (role) {
    case tern::ops::Role::input:
      return "TERN_ROLE_INPUT";
    case tern::ops::Role::output:
      return "TERN_ROLE_OUTPUT";
    case tern::ops::Role::state:
      return "TERN_ROLE_STATE";
  }
  return "";
}

std::string flags_of(std::uint32_t flags) {
  std::string out;
  const auto add = [&](std::uint32_t bit, const char* name) {
    if ((flags & bit) != 0) out += (out.empty() ? "TERN_ARG_" : " | TERN_ARG_") + std::string(name);
  };
  add(tern::ops::kOptional, "OPTIONAL");
  add(tern::ops::kLengths, "LENGTHS");
  add(tern::ops::kAccumulate, "ACCUMULATE");
  add(tern::ops::kQuantised, "QUANTISED");
  add(tern::ops::kPackable, "PACKABLE");
  return out.empty() ? "0" : out;
}

// "float" and "as x" as the header's `dtypes` and `dtype_as`.
void write_arg(const tern::ops::OpSpec& op, const tern::ops::ArgSpec& arg) {
  const std::string_view text = name_of(arg.dtypes);
  const bool same = text.substr(0, 3) == "as ";
  std::string dtypes = "1u << TERN_" + upper(text);
  if (text == "any" || same) dtypes = "TERN_DTYPES_ANY";
  if (text == "float") dtypes = "TERN_DTYPES_FLOAT";
  if (text == "cached") dtypes = "TERN_DTYPES_CACHED";
  std::cout << "    {\"" << arg.name << "\", " << dtypes << ", " << role_of(arg.role) << ", " << flags_of(arg.flags)
            << ", " << (same ? op.arg_index(text.substr(3)) : -1) << "},\n";
}

void write_args(const tern::ops::OpSpec& op) {
  std::cout << "static const tern_arg_signature tern_" << op.name << "_args[] = {\n";
  for (const auto& arg : op.args) write_arg(op, arg);
  std::cout << "};\n";
}

void write_op(const tern::ops::OpSpec& op) {
  const std::string name(op.name);
  std::cout << "    {TERN_OP_" << upper(name) << ", TERN_" << upper(name) << "_NUM_ARGS, "
            << (op.attrs.empty() ? "0" : "sizeof(tern_" + name + "_attrs)") << ", \"" << name << "\", tern_" << name
            << "_args},\n";
}

}  // namespace

int main() {
  std::cout << kHead << "\n";
  std::size_t most_args = 0;
  std::size_t most_attrs = 0;
  for (const auto& op : tern::ops::op_table()) {
    write_args(op);
    most_args = std::max(most_args, op.args.size());
    most_attrs = std::max(most_attrs, op.attrs.size());
  }
  std::cout << "\nenum {\n  TERN_OP_SIGNATURE_COUNT = " << tern::ops::op_table().size()
            << ",\n  TERN_OP_MAX_ARGS = " << most_args << ",\n  TERN_OP_MAX_ATTRS = " << most_attrs
            << " /* of 4 bytes each */\n};\n"
            << "static const tern_op_signature tern_op_signatures[TERN_OP_SIGNATURE_COUNT] = {\n";
  for (const auto& op : tern::ops::op_table()) write_op(op);
  std::cout << "};\n\n#endif\n";
  return 0;
}
