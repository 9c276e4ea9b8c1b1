#include "nn/context.h"

#include <stdexcept>

#include "base/strings.h"

namespace tern::nn {

Value Context::weight(const std::string& name) {
  Value& known = weights_[name];
  if (!known.present()) known = graph_.constant(name, store_.at(name).desc);
  return known;
}

Value Context::state(const std::string& name, const TensorDesc& desc) {
  const Value found = graph_.find(name);
  return found.present() ? graph_.latest(found) : graph_.resource(name, desc);
}

Value Context::kept(const std::string& name) const {
  const auto found = kept_.find(name);
  if (found == kept_.end()) throw std::logic_error(cat("no layer before this one kept ", name));
  return found->second;
}

std::string dropout_mask_name(std::int32_t site) { return cat("dropout_mask/", site); }

}  // namespace tern::nn
