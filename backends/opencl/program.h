// Programs: compiled from the sources that are built into the plugin, at run time, for one device and its driver.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/opencl/cl.h"
#include "backends/opencl/facts.h"

namespace tern::opencl {

// The text of cl/<name>.cl, as it was built in; throws Error where there is none.
[[nodiscard]] std::string_view source_text(std::string_view name);

// All programs of one device. Any number of threads.
class Programs {
 public:
  Programs(cl_context context, cl_device_id device, const Facts& facts, std::string cache_folder);

  // cl/<file>.cl behind cl/common.clh, with `options` ("-D x_T=0 ..."): compiled once
  // in this process, and kept in the folder of the cache for the next. Throws Error with the compiler's first
  // complaint.
  [[nodiscard]] cl_program get(std::string_view file, const std::string& options);

 private:
  struct Entry {
    std::mutex mutex;  // one compilation of it at a time, others beside it
    OwnedProgram program;
  };
  [[nodiscard]] OwnedProgram build(std::string_view file, const std::string& options) const;

  cl_context context_;
  cl_device_id device_;
  std::string identity_;        // of device and driver
  std::string device_options_;  // what every program is compiled with here
  std::string cache_folder_;    // "": nothing is kept
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace tern::opencl
