// The tensors of one owner in a store: they go when it goes, and a lack of memory says what each owner holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/tensor_store.h"

namespace tern::graph {

class TensorScope {
 public:
  // `owner` is told to people: "optimizer", "key-value cache".
  TensorScope(std::shared_ptr<TensorStore> store, std::string owner);
  // Erases what was made here; programs that are bound to it must have run for the last time.
  ~TensorScope();
  TensorScope(const TensorScope&) = delete;
  TensorScope& operator=(const TensorScope&) = delete;

  // As those of the store.
  void create(const std::string& name, const TensorDesc& desc);
  void create_on_host(const std::string& name, const TensorDesc& desc);

  [[nodiscard]] std::uint64_t bytes() const;  // on the device, packs included

 private:
  std::shared_ptr<TensorStore> store_;
  std::string owner_;
  std::vector<std::string> names_;
};

}  // namespace tern::graph
