#include "tests/unit/backend_opencl/child.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "tern/accel_ops.h"

namespace tern::test {
namespace {

const tern_backend* enter(const std::string& cache_folder) {
  void* const library = dlopen(TERN_PLUGIN_DIR "/libtern_opencl.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<tern_backend_entry_fn>(dlsym(library, "tern_backend_entry"));
  static tern_host host{};
  static std::string folder = cache_folder;
  host.size = sizeof host;
  host.abi_major = TERN_ABI_MAJOR;
  host.abi_minor = TERN_ABI_MINOR;
  host.cache_dir = folder.empty() ? nullptr : folder.c_str();
  return entry(&host);
}

tern_tensor tensor(tern_buffer buffer, std::uint64_t offset) {
  tern_tensor made{};
  made.desc.dtype = TERN_F32;
  made.desc.rank = 1;
  made.desc.dynamic_dim = -1;
  made.desc.shape[0] = 4;
  made.desc.strides[0] = 1;
  made.planes[0] = {buffer, offset};
  return made;
}

}  // namespace

Child begin_child(const Variables& variables, const std::string& cache_folder,
                  const std::function<std::string(const tern_backend&)>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  const int pid = fork();
  if (pid != 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const tern_backend* const table = enter(cache_folder);
  const std::string text = table == nullptr ? "the plugin can't be entered" : body(*table);
  if (write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
  _exit(0);
}

std::string wait_for(const Child& child) {
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = read(child.descriptor, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(child.descriptor);
  int status = 0;
  waitpid(child.pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "died: " + text;
}

std::string in_child(const Variables& variables, const std::string& cache_folder,
                     const std::function<std::string(const tern_backend&)>& body) {
  return wait_for(begin_child(variables, cache_folder, body));
}

std::string last_error(const tern_backend& table) {
  std::array<char, 1024> text{};
  table.last_error({text.data(), text.size()});
  return text.data();
}

std::string double_numbers(const tern_backend& table, int ordinal) {
  tern_open_args open{};
  open.size = sizeof open;
  open.ordinal = ordinal;
  tern_device device = nullptr;
  tern_buffer buffer = nullptr;
  tern_stream stream = nullptr;
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(4);
  if (table.device_open(&open, &device) != TERN_OK || table.buffer_create(device, 4096, 0, &buffer) != TERN_OK ||
      table.stream_create(device, 0, &stream) != TERN_OK ||
      table.copy_to_device({buffer, 0}, x.data(), 16, stream) != TERN_OK) {
    return last_error(table);
  }
  const std::array<tern_tensor, 3> args = {tensor(buffer, 0), tern_tensor{}, tensor(buffer, 1024)};
  const std::array<tern_tensor_desc, 3> descs = {args[0].desc, args[1].desc, args[2].desc};
  const tern_axpby_attrs attrs{2.0F, 0.0F};
  tern_op_desc desc{};
  desc.size = sizeof desc;
  desc.op = TERN_OP_AXPBY;
  desc.num_args = 3;
  desc.attrs_size = sizeof attrs;
  desc.args = descs.data();
  desc.attrs = &attrs;
  tern_plan plan = nullptr;
  tern_plan_info info{};
  info.size = sizeof info;
  tern_bind_args bind{};
  bind.size = sizeof bind;
  bind.num_args = 3;
  bind.args = args.data();
  tern_bound bound = nullptr;
  if (table.plan(device, &desc, nullptr, &plan, &info) != TERN_OK || table.bind(plan, &bind, &bound) != TERN_OK ||
      table.launch(bound, nullptr, stream, nullptr) != TERN_OK ||
      table.copy_to_host(y.data(), {buffer, 1024}, 16, stream) != TERN_OK ||
      table.stream_synchronize(stream) != TERN_OK) {
    return last_error(table);
  }
  std::string text;
  for (const float value : y) text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(value));
  (void)table.unbind(bound);
  (void)table.plan_destroy(plan);
  (void)table.stream_destroy(stream);
  (void)table.buffer_destroy(buffer);
  (void)table.device_close(device);
  return text;
}

}  // namespace tern::test
