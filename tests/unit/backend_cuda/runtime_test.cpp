// The cuda plugin over the fake of NVIDIA's driver, in processes of its own as a driver reads its variables once. If
// these fail, a machine without the driver isn't told what to install, an update of a captured launch is lost or makes
// the host capture again, or a device that the kernels can't run on is offered.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace tern::test {
namespace {

using Variables = std::map<std::string, std::string>;

std::string last_error(const tern_backend& table) {
  std::array<char, 1024> text{};
  table.last_error({text.data(), text.size()});
  return text.data();
}

const tern_backend* enter() {
  void* const library = dlopen(TERN_PLUGIN_DIR "/libtern_cuda.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  static tern_host host{};
  host.size = sizeof host;
  host.abi_major = TERN_ABI_MAJOR;
  host.abi_minor = TERN_ABI_MINOR;
  return reinterpret_cast<tern_backend_entry_fn>(dlsym(library, "tern_backend_entry"))(&host);
}

// What a child process says that has these variables.
std::string in_child(const Variables& variables, const std::function<std::string(const tern_backend&)>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  const int pid = fork();
  if (pid == 0) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const tern_backend* const table = enter();
    const std::string text = table == nullptr ? "the plugin can't be entered" : body(*table);
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "died: " + text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string count_devices(const tern_backend& table) {
  std::int32_t count = -1;
  std::array<char, 512> reason{};
  const tern_status status = table.device_count(&count, {reason.data(), reason.size()});
  return (status == TERN_OK ? std::to_string(count) : "failed") + " " + reason.data();
}

std::string doctor_lines(const tern_backend& table) {
  std::string all;
  std::array<char, 512> line{};
  std::int32_t level = 0;
  for (std::uint32_t i = 0; table.doctor(i, &level, {line.data(), line.size()}) == TERN_OK; ++i) {
    all += std::to_string(level) + " " + line.data() + "\n";
  }
  return all;
}

// A launch of y = softcap(x) over as many rows as count, captured; x holds 1, and y 9 before each replay.
class Captured {
 public:
  static constexpr std::int64_t kRows = 4, kColumns = 8;
  explicit Captured(const tern_backend& table) : table_(table) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  bool make() {
    tern_open_args open{};
    open.size = sizeof open;
    return good(table_.device_open(&open, &device_)) && good(table_.stream_create(device_, 0, &stream_)) &&
           good(table_.buffer_create(device_, sizeof(float) * kRows * kColumns, 0, &x_)) &&
           good(table_.buffer_create(device_, sizeof(float) * kRows * kColumns, 0, &y_)) && bind() && capture(0);
  }
  tern_status update(std::uint64_t node, std::int64_t rows) {
    const tern_host_args args = counts(rows);
    const std::array<tern_node_update, 2> updates = {{{node_, &args}, {node, &args}}};
    return table_.capture_update(capture_, stream_, updates.data(), 2);
  }
  [[nodiscard]] std::uint64_t node() const { return node_; }
  // How many rows a replay wrote.
  std::string replay() {
    std::vector<float> host(kRows * kColumns, 1.0F);
    const std::uint64_t bytes = host.size() * sizeof(float);
    if (!good(table_.copy_to_device({x_, 0}, host.data(), bytes, stream_))) return error_;
    host.assign(host.size(), 9.0F);
    if (!good(table_.copy_to_device({y_, 0}, host.data(), bytes, stream_)) ||
        !good(table_.capture_launch(capture_, stream_)) ||
        !good(table_.copy_to_host(host.data(), {y_, 0}, bytes, stream_)) || !good(table_.stream_synchronize(stream_))) {
      return error_;
    }
    int rows = 0;
    for (std::int64_t r = 0; r < kRows; ++r) rows += host[static_cast<std::size_t>(r * kColumns)] != 9.0F;
    return std::to_string(rows) + " ";
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool good(tern_status status) {
    if (status != TERN_OK) error_ = last_error(table_);
    return status == TERN_OK;
  }
  static tern_host_args counts(std::int64_t rows) {
    tern_host_args args{};
    args.size = sizeof args;
    args.counts[0] = rows;
    return args;
  }
  bool bind() {
    std::array<tern_tensor, 2> tensors{};
    std::array<tern_tensor_desc, 2> descs{};
    for (std::size_t i = 0; i < 2; ++i) {
      tern_tensor_desc& desc = descs[i];
      desc.dtype = TERN_F32;
      desc.rank = 2;
      desc.dynamic_dim = 0;
      desc.shape[0] = kRows;
      desc.shape[1] = desc.strides[0] = kColumns;
      desc.strides[1] = 1;
      tensors[i].desc = desc;
    }
    tensors[TERN_SOFTCAP_X].planes[0] = {x_, 0};
    tensors[TERN_SOFTCAP_Y].planes[0] = {y_, 0};
    const tern_softcap_attrs attrs{30.0F};
    tern_op_desc op{};
    op.size = sizeof op;
    op.op = TERN_OP_SOFTCAP;
    op.num_args = 2;
    op.args = descs.data();
    op.attrs = &attrs;
    op.attrs_size = sizeof attrs;
    tern_plan_info info{};
    info.size = sizeof info;
    tern_bind_args args{};
    args.size = sizeof args;
    args.num_args = 2;
    args.args = tensors.data();
    return good(table_.plan(device_, &op, nullptr, &plan_, &info)) && good(table_.bind(plan_, &args, &bound_));
  }
  bool capture(std::int64_t rows) {
    const tern_host_args args = counts(rows);
    return good(table_.capture_begin(stream_)) && good(table_.launch(bound_, &args, stream_, &node_)) &&
           good(table_.capture_end(stream_, &capture_));
  }
  const tern_backend& table_;
  tern_device device_ = nullptr;
  tern_stream stream_ = nullptr;
  tern_buffer x_ = nullptr, y_ = nullptr;
  tern_plan plan_ = nullptr;
  tern_bound bound_ = nullptr;
  tern_capture capture_ = nullptr;
  std::uint64_t node_ = 99;
  std::string error_;
};

TEST(CudaRuntime, CapturedLaunchesTakeOtherCounts) {
  const auto rows = [](const tern_backend& table) {
    Captured captured(table);
    if (!captured.make()) return captured.error();
    std::string said = captured.replay();  // captured without a row
    for (const std::int64_t count : {3, 4, 0, 1}) {
      if (captured.update(captured.node(), count) != TERN_OK) return last_error(table);
      said += captured.replay();
    }
    if (captured.update(captured.node() + 1, 4) != TERN_INVALID_ARGUMENT)
      return std::string("another launch is updated");
    return said + captured.replay();  // all updates or none
  };
  EXPECT_EQ(in_child({}, rows), "0 3 4 0 1 1 ");
}

TEST(CudaRuntime, OlderDevicesAreLeftOut) {
  const std::string said = in_child({{"TERN_FAKE_CUDA_CAPABILITY", "75"}}, count_devices);
  EXPECT_TRUE(contains(said, "0 ") && contains(said, "compute capability is 7.5")) << said;
}

TEST(CudaRuntime, DoctorTellsOfTheDevices) {
  const std::string said = in_child({{"TERN_FAKE_CUDA_DEVICES", "2"}}, doctor_lines);
  EXPECT_TRUE(contains(said, "cuda:1: ")) << said;
  EXPECT_TRUE(contains(said, "compute capability 9.0")) << said;
}

TEST(CudaRuntime, DevicesOfAnotherPlaceAreRefused) {
  const auto open = [](const tern_backend& table) {
    tern_open_args args{};
    args.size = sizeof args;
    args.ordinal = 5;
    tern_device device = nullptr;
    return table.device_open(&args, &device) == TERN_INVALID_ARGUMENT ? last_error(table) : "opened";
  };
  EXPECT_EQ(in_child({{"TERN_FAKE_CUDA_DEVICES", "2"}}, open), "cuda:5: the last device is cuda:1");
}

// Runs without the fake on the search path.
TEST(CudaWithoutDriver, SaysWhatToInstall) {
  if (void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    GTEST_SKIP() << "there is a driver";
  }
  const std::string said = in_child({}, count_devices);
  EXPECT_TRUE(contains(said, "0 ") && contains(said, "install the NVIDIA driver") && contains(said, "--gpus all"))
      << said;
  const auto describe = [](const tern_backend& table) {
    tern_device_info info{};
    info.size = sizeof info;
    return table.device_describe("h100", &info) == TERN_OK ? std::string(info.arch) : last_error(table);
  };
  EXPECT_EQ(in_child({}, describe), "sm_90");  // a plan needs no driver
}

}  // namespace
}  // namespace tern::test
