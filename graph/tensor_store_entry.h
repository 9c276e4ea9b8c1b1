// The inside of TensorStore, shared by its tensors and its packs.
#pragma once

#include <vector>

#include "graph/tensor_store.h"

namespace tern::graph {

struct TensorStore::Pack {
  tern_tensor tensor{};
  accel::CachingAllocator::Block memory;
  bool stale = true;
  Hold hold = std::make_shared<char>();  // shared by those who read it
};

struct TensorStore::Entry {
  tern_tensor tensor{};
  accel::CachingAllocator::Block block;  // created here
  accel::HostBuffer host;                // or on the host
  std::uint64_t on_host = 0;             // bytes of it, there or only counted
  accel::Buffer buffer;                  // or adopted
  std::uint64_t mapped = 0;              // bytes of a file's pages, there or only counted
  std::function<void()> let_go;          // of what was adopted
  std::map<std::uint32_t, Pack> packs;   // by uses
  Hold hold = std::make_shared<char>();  // shared by those who read the plain form
  bool gone = false;                     // packs have taken the plain form's place
  std::string owner = kModel;            // whom a lack of memory names
  std::vector<std::string> parts;        // tensors of their own that hold it, in order of rows; none: it is whole
};

}  // namespace tern::graph
