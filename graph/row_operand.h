// An argument of a call whose storage may be in parts of rows: what lies where.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "graph/row_parts.h"
#include "ops/emit.h"

namespace tern::graph {

struct Part {
  RowRange rows;
  ops::Value value;  // all of it
};

// A value, or a view of a storage that is in parts.
struct Operand {
  ops::Value value;
  const std::vector<Part>* parts = nullptr;
  std::int64_t offset = 0;      // elements from the storage's begin
  std::int64_t row_stride = 1;  // elements of one of its rows
  TensorDesc desc = absent_desc();
  TensorDesc whole = absent_desc();  // the storage's

  [[nodiscard]] bool present() const { return value.present() || parts != nullptr; }
};

// The part that a view of a storage in parts lies in; null where it lies in several.
[[nodiscard]] const Part* part_with(const Operand& view);

// Where such a view is cut: the dimension that goes furthest from row to row, and the borders along it, both ends
// among them. dim -1: nowhere, as some part begins within an entry of that dimension.
struct Cut {
  int dim = -1;
  std::set<std::int64_t> borders;
};
[[nodiscard]] Cut cut_of(const Operand& view);

}  // namespace tern::graph
