// The opencl plugin in a process of its own: drivers read their variables once, and what is kept in files is for the
// next process. The tests' own process never loads it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tern/accel.h"

namespace tern::test {

using Variables = std::map<std::string, std::string>;

// What a child process says that has these variables, and the plugin entered with this cache folder ("": none). It
// begins with "died" where the child did.
std::string in_child(const Variables& variables, const std::string& cache_folder,
                     const std::function<std::string(const tern_backend&)>& body);

// A child that has begun; wait_for gives what it says.
struct Child {
  int pid = -1;
  int descriptor = -1;
};
Child begin_child(const Variables& variables, const std::string& cache_folder,
                  const std::function<std::string(const tern_backend&)>& body);
std::string wait_for(const Child& child);

// Doubles four numbers by axpby on the device: "2 4 6 8", or what went wrong.
std::string double_numbers(const tern_backend& table, int ordinal);
std::string last_error(const tern_backend& table);

}  // namespace tern::test
