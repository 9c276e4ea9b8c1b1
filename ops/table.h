// The op table: every operation's arguments and attributes, once. include/tern/accel_ops.h is generated from it
// (script/generate), and contracts, checks, oracles and docs refer to it by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ops/shape.h"

namespace tern::ops {

enum class Role {
  input,
  output,  // written; added to where the desc's `accumulate` bit is set and the op allows it
  state,   // read and written in place
};

enum ArgFlags : std::uint32_t {
  kOptional = 1,    // may be absent: rank 0
  kLengths = 2,     // i32, made by the host, also in host_args
  kAccumulate = 4,  // this output may be asked to accumulate
  kQuantised = 8,   // may be a quantised tensor
  kPackable = 16,   // a weight that may come in a private layout
};

// What an argument may hold.
enum class Dtypes {
  any,
  as_x,      // any, and that of the argument x
  floating,  // f32, f16 or bf16
  cached,    // those, or i8 or f8_e4m3 with scales beside
  f32,
  i32,
  i64,
  u8,
  u32,
  boolean,  // TERN_BOOL
};
[[nodiscard]] std::string_view name_of(Dtypes dtypes);  // "any", "as x", "float", "cached", "f32", "bool"
[[nodiscard]] constexpr bool is_integer(Dtypes dtypes) { return dtypes >= Dtypes::i32; }

struct ArgSpec {
  std::string_view name;
  Role role;
  Shape shape;  // "[rows, in]"
  Dtypes dtypes;
  std::uint32_t flags = 0;
  std::uint32_t optional_since = 0;  // of a kOptional one: the minor version of the interface that made it so
};

enum class AttrType { f32, i32 };

struct AttrSpec {
  std::string_view name;
  AttrType type;
  std::string_view meaning;
};

struct OpSpec {
  std::uint32_t id;
  std::string_view name;
  std::string_view formula;
  std::span<const ArgSpec> args;
  std::span<const AttrSpec> attrs;

  [[nodiscard]] int arg_index(std::string_view arg) const;  // -1: none
  [[nodiscard]] int num_lengths() const;
};

[[nodiscard]] std::span<const OpSpec> op_table();
[[nodiscard]] const OpSpec& op_spec(std::uint32_t id);  // of ops/program_ops.h too; throws std::out_of_range
[[nodiscard]] const OpSpec* find_op(std::string_view name);

}  // namespace tern::ops
