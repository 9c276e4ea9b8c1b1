#include "graph/tensor_scope.h"

namespace tern::graph {

TensorScope::TensorScope(std::shared_ptr<TensorStore> store, std::string owner)
    : store_(std::move(store)), owner_(std::move(owner)) {}

TensorScope::~TensorScope() {
  for (const std::string& name : names_) store_->erase(name);
}

void TensorScope::create(const std::string& name, const TensorDesc& desc) {
  store_->create(name, desc, owner_);
  names_.push_back(name);
}

void TensorScope::create_on_host(const std::string& name, const TensorDesc& desc) {
  store_->create_on_host(name, desc, owner_);
  names_.push_back(name);
}

std::uint64_t TensorScope::bytes() const {
  std::uint64_t total = 0;
  for (const std::string& name : names_) total += store_->bytes(name);
  return total;
}

}  // namespace tern::graph
