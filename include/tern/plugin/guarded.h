// The C++ part: exceptions become a status at the border, and owners for what the C part allocates. See tern/plugin.h.
#ifndef TERN_PLUGIN_GUARDED_H
#define TERN_PLUGIN_GUARDED_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tern/plugin/desc.h"
#include "tern/plugin/error.h"
#include "tern/plugin/host_args.h"
#include "tern/plugin/plan.h"

namespace tern_plugin {

// A failure on its way to the border: the status, and the text of the last error.
class Error : public std::runtime_error {
 public:
  Error(tern_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  [[nodiscard]] tern_status status() const noexcept { return status_; }

 private:
  tern_status status_;
};

// Throws what a function of the C part gave back, if that is a failure.
inline void require(tern_status status) {
  if (status != TERN_OK) throw Error(status, tern_plugin_error());
}

// As tern_plugin_fail and tern_plugin_put_text, with texts of C++. They hold no zero bytes.
inline tern_status fail(tern_status status, std::string_view text) noexcept {
  return tern_plugin_fail(status, "%.*s", static_cast<int>(text.substr(0, TERN_PLUGIN_ERROR_BYTES).size()),
                          text.data());
}
inline void put_text(tern_text to, std::string_view text) noexcept { tern_plugin_put(to, text.data(), text.size()); }

// As tern_plugin_give_info.
template <typename Info>
tern_status give_info(Info* info, Info filled) noexcept {
  return tern_plugin_give_info(info, &filled, sizeof filled);
}

// The status of the exception that is being handled, its text the last error: Error's own; TERN_OUT_OF_HOST_MEMORY of
// std::bad_alloc; TERN_INTERNAL of anything else. Allocates nothing.
inline tern_status caught() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(TERN_OUT_OF_HOST_MEMORY, "the host has no memory left for this call's bookkeeping");
  } catch (const std::exception& error) {
    return fail(TERN_INTERNAL, error.what());
  } catch (...) {
    return fail(TERN_INTERNAL, "an exception of an unknown type");
  }
}

// Runs the body of an interface function, which gives a tern_status: nothing thrown crosses the border. A backend with
// exceptions of its own catches them inside of the body, or writes its own `guarded` that ends with `caught`.
template <typename Body>
tern_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return caught();
  }
}

struct Free {
  void operator()(void* block) const noexcept { (void)tern_plugin_free(block); }
};

// A plan's own copy of a desc that has been checked. Throws Error.
using OpDesc = std::unique_ptr<tern_op_desc, Free>;
[[nodiscard]] inline OpDesc copy_desc(const tern_op_desc& desc) {
  tern_op_desc* copy = nullptr;
  require(tern_plugin_copy_desc(&desc, sizeof *copy, &copy));
  return OpDesc(copy);
}

// The plugin's own copy of a launch's counts and lengths. Made of nothing: none were given.
class HostArgs {
 public:
  HostArgs() = default;
  // Checks and copies; throws Error.
  HostArgs(const tern_op_desc& desc, const tern_host_args* given) {
    require(tern_plugin_copy_host_args(&desc, given, &copy_));
    block_.reset(copy_.arrays);
  }
  // The same in place of what was copied before, and in its memory where the sizes are equal.
  void replace(const tern_op_desc& desc, const tern_host_args* given) {
    if (!fits(desc, given)) {
      *this = HostArgs(desc, given);
      return;
    }
    require(tern_plugin_check_host_args(&desc, given));
    std::memcpy(copy_.counts, given->counts, sizeof copy_.counts);
    for (std::uint32_t i = 0; i < copy_.num_arrays; ++i) {
      const auto count = static_cast<std::size_t>(copy_.arrays[i].count);
      auto* data = const_cast<std::int32_t*>(copy_.arrays[i].data);  // in the block that this owns
      if (count > 0) std::memcpy(data, given->arrays[i].data, count * sizeof *data);
    }
  }
  // Null: none were given, every entry of the capacities counts.
  [[nodiscard]] const std::int64_t* counts() const { return copy_.given != 0 ? copy_.counts : nullptr; }
  [[nodiscard]] std::span<const tern_host_array> arrays() const {
    return {block_.get(), block_ ? copy_.num_arrays : 0};
  }

 private:
  [[nodiscard]] bool fits(const tern_op_desc& desc, const tern_host_args* given) const {
    if (given == nullptr || copy_.given == 0 || given->arrays == nullptr) return false;
    if (std::min(given->num_arrays, tern_plugin_num_lengths(desc.op)) != copy_.num_arrays) return false;
    for (std::uint32_t i = 0; i < copy_.num_arrays; ++i) {
      if (given->arrays[i].count != copy_.arrays[i].count) return false;
    }
    return true;
  }
  tern_plugin_host_args copy_{};
  std::unique_ptr<tern_host_array, Free> block_;
};

}  // namespace tern_plugin

#endif
