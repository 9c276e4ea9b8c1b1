#include "graph/region.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace tern::graph {
namespace {

// A box over digits of the offset: digit i counts steps of chain[i], below chain[i - 1] / chain[i].
struct Box {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> end;
};

// Makes equal sets equal; dims come with falling strides.
void join_neighbours(std::vector<Region::Dim>& dims) {
  std::vector<Region::Dim> joined;
  for (const Region::Dim& dim : dims) {
    if (dim.size == 1) continue;
    if (!joined.empty() && joined.back().stride == dim.size * dim.stride) {
      joined.back() = {joined.back().size * dim.size, dim.stride};
    } else {
      joined.push_back(dim);
    }
  }
  dims = std::move(joined);
}

// Every stride there is and 1, falling; absent where one does not divide the next.
std::optional<std::vector<std::int64_t>> chain_of(const Region& from, std::span<const Region> taken) {
  std::vector<std::int64_t> chain = {1};
  for (const Region::Dim& dim : from.dims) chain.push_back(dim.stride);
  for (const Region& region : taken) {
    for (const Region::Dim& dim : region.dims) chain.push_back(dim.stride);
  }
  std::sort(chain.begin(), chain.end(), std::greater<>());
  chain.erase(std::unique(chain.begin(), chain.end()), chain.end());
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (chain[i - 1] % chain[i] != 0) return std::nullopt;
  }
  return chain;
}

std::optional<Box> box_of(const Region& region, const std::vector<std::int64_t>& chain) {
  Box box;
  std::int64_t rest = region.offset;
  for (std::int64_t stride : chain) {
    box.begin.push_back(rest / stride);
    box.end.push_back(rest / stride + 1);
    rest %= stride;
  }
  for (Region::Dim dim : region.dims) {
    auto at = static_cast<std::size_t>(std::find(chain.begin(), chain.end(), dim.stride) - chain.begin());
    // A dimension that runs through whole digits goes on in the one before.
    for (; at > 0; --at) {
      const std::int64_t radix = chain[at - 1] / chain[at];
      if (box.begin[at] + dim.size <= radix) break;
      if (box.begin[at] != 0 || dim.size % radix != 0) return std::nullopt;
      box.end[at] = radix;
      dim.size /= radix;
    }
    box.end[at] = box.begin[at] + dim.size;
  }
  return box;
}

// The parts of `from` outside of `taken`.
void cut_out(const Box& from, const Box& taken, std::vector<Box>& out) {
  Box rest = from;
  for (std::size_t d = 0; d < from.begin.size(); ++d) {
    if (std::max(from.begin[d], taken.begin[d]) >= std::min(from.end[d], taken.end[d])) {
      out.push_back(from);
      return;
    }
  }
  for (std::size_t d = 0; d < from.begin.size(); ++d) {
    if (rest.begin[d] < taken.begin[d]) {
      out.push_back(rest);
      out.back().end[d] = rest.begin[d] = taken.begin[d];
    }
    if (taken.end[d] < rest.end[d]) {
      out.push_back(rest);
      out.back().begin[d] = rest.end[d] = taken.end[d];
    }
  }
}

Region region_of(const Box& box, const std::vector<std::int64_t>& chain) {
  Region out;
  for (std::size_t d = 0; d < chain.size(); ++d) {
    out.offset += box.begin[d] * chain[d];
    out.dims.push_back({box.end[d] - box.begin[d], chain[d]});
  }
  join_neighbours(out.dims);
  return out;
}

}  // namespace

Region region_of(const TensorDesc& desc, std::int64_t offset) {
  Region out;
  out.offset = offset;
  for (int d = 0; d < desc.rank; ++d) {
    out.is_empty = out.is_empty || desc.shape[d] == 0;
    if (desc.shape[d] > 1 && desc.strides[d] != 0) out.dims.push_back({desc.shape[d], desc.strides[d]});
  }
  if (out.is_empty) {
    out.dims.clear();
    return out;
  }
  std::sort(out.dims.begin(), out.dims.end(),
            [](const Region::Dim& a, const Region::Dim& b) { return a.stride > b.stride; });
  std::int64_t reach = 1;  // of all inner dimensions together
  for (std::size_t d = out.dims.size(); d-- > 0;) {
    if (out.dims[d].stride < reach) throw std::logic_error("a view of windows that overlap: " + to_string(desc));
    reach += (out.dims[d].size - 1) * out.dims[d].stride;
  }
  join_neighbours(out.dims);
  return out;
}

std::optional<std::vector<Region>> subtract(const Region& from, std::span<const Region> taken) {
  if (from.is_empty) return std::vector<Region>{};
  const auto chain = chain_of(from, taken);
  if (!chain) return std::nullopt;
  const auto whole = box_of(from, *chain);
  if (!whole) return std::nullopt;
  std::vector<Box> rest = {*whole};
  for (const Region& region : taken) {
    if (region.is_empty) continue;
    const auto box = box_of(region, *chain);
    if (!box) return std::nullopt;
    std::vector<Box> left;
    for (const Box& part : rest) cut_out(part, *box, left);
    rest = std::move(left);
  }
  std::vector<Region> out;
  for (const Box& part : rest) {
    out.push_back(region_of(part, *chain));
    if (out.back().dims.size() > TERN_MAX_RANK) return std::nullopt;
  }
  return out;
}

TensorDesc desc_of(const Region& region, const TensorDesc& storage, tern_dtype dtype) {
  std::vector<Region::Dim> dims = region.dims;
  const std::int64_t row = storage.strides[0];
  bool all_rows = storage.dynamic_dim == 0 && region.offset < row;
  // Rows that were joined with what they hold stand apart again.
  if (all_rows && !dims.empty() && dims[0].stride < row && row % dims[0].stride == 0 &&
      dims[0].size * dims[0].stride == storage.shape[0] * row && dims.size() < TERN_MAX_RANK) {
    const Region::Dim inner = {row / dims[0].stride, dims[0].stride};
    dims[0] = inner;
    dims.insert(dims.begin(), {storage.shape[0], row});
  }
  all_rows = all_rows && !dims.empty() && dims[0].stride == row && dims[0].size == storage.shape[0];
  std::vector<std::int64_t> shape;
  for (const Region::Dim& dim : dims) shape.push_back(dim.size);
  if (shape.empty()) shape.push_back(region.is_empty ? 0 : 1);
  TensorDesc desc = make_desc(dtype, shape);
  for (std::size_t d = 0; d < dims.size(); ++d) desc.strides[d] = dims[d].stride;
  return all_rows ? with_dynamic(desc, 0, storage.count_slot) : desc;
}

}  // namespace tern::graph
