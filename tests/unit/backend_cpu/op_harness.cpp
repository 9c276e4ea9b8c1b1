#include "tests/unit/backend_cpu/op_harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "base/dtype.h"
#include "base/half.h"
#include "ops/ref/packing_blocks.h"
#include "ops/ref/tensor.h"
#include "ops/rules.h"
#include "ops/table.h"
#include "ops/tolerance.h"
#include "tern/accel.h"
#include "tests/unit/backend_cpu/calls.h"
#include "tests/unit/backend_cpu/plugin.h"

namespace tern::test {
namespace {

const tern_backend& backend() {
  static const tern_backend* const table = Plugin("baseline", 2).table;
  return *table;
}

void must(tern_status status, const char* what) {
  if (status == TERN_OK) return;
  char text[512] = {};
  backend().last_error({text, sizeof text});
  throw std::runtime_error(std::string(what) + ": " + text);
}

// An open device whose buffers live as long as it.
class Device {
 public:
  Device(const std::string& target, int num_threads) : plugin_(target, num_threads) {
    if (plugin_.device == nullptr) throw std::runtime_error("this CPU lacks " + target);
  }
  ~Device() {
    for (tern_buffer buffer : buffers_) backend().buffer_destroy(buffer);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  tern_plane plane(std::uint64_t bytes, const void* from) {
    tern_buffer buffer = nullptr;
    must(backend().buffer_create(get(), std::max<std::uint64_t>(bytes, 64), 0, &buffer), "buffer_create");
    buffers_.push_back(buffer);
    if (from != nullptr && bytes > 0) std::memcpy(pointer({buffer, 0}), from, bytes);
    return {buffer, 0};
  }
  static void* pointer(tern_plane plane) {
    void* at = nullptr;
    must(backend().buffer_host_pointer(plane.buffer, &at), "buffer_host_pointer");
    return static_cast<std::byte*>(at) + plane.offset;
  }
  [[nodiscard]] tern_device get() const { return plugin_.device; }
  [[nodiscard]] tern_stream stream() const { return plugin_.stream; }

 private:
  Plugin plugin_;
  std::vector<tern_buffer> buffers_;
};

// What a call holds; let go of where it fails too.
struct Held {
  tern_plan plan = nullptr;
  tern_bound bound = nullptr;
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (bound != nullptr) backend().unbind(bound);
    if (plan != nullptr) backend().plan_destroy(plan);
  }
};

Outcome launch(Device& device, const OpCase& c, std::vector<tern_tensor>& tensors) {
  std::vector<tern_tensor_desc> descs;
  for (const auto& tensor : tensors) descs.push_back(tensor.desc);
  std::vector<std::int8_t> alias(descs.size(), -1);
  tern_op_desc desc{};
  desc.size = sizeof desc;
  desc.op = c.op;
  desc.needs = c.needs;
  desc.accumulate = c.accumulate;
  desc.num_args = static_cast<std::uint32_t>(descs.size());
  desc.attrs_size = static_cast<std::uint32_t>(c.attrs.size());
  desc.args = descs.data();
  desc.attrs = c.attrs.data();
  desc.alias = alias.data();
  Held held;
  tern_plan_info info{};
  info.size = sizeof info;
  const tern_plan_options options = choosing(c.choice.empty() ? nullptr : c.choice.c_str());
  must(backend().plan(device.get(), &desc, &options, &held.plan, &info), "plan");
  const tern_plane workspace = device.plane(info.workspace_bytes + 4096, nullptr);
  auto* space = static_cast<std::uint8_t*>(Device::pointer(workspace));
  std::memset(space, 0xff, info.workspace_bytes);
  std::memset(space + info.workspace_bytes, 0x5a, 4096);
  const tern_bind_args given = placed(tensors, workspace);
  must(backend().bind(held.plan, &given, &held.bound), "bind");
  std::vector<tern_host_array> arrays;
  const auto& spec = ops::op_spec(c.op);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if ((spec.args[i].flags & ops::kLengths) == 0) continue;
    arrays.push_back({reinterpret_cast<const std::int32_t*>(c.args[i].bytes.data()), num_elements(c.args[i].desc)});
  }
  tern_host_args host_args{};
  host_args.size = sizeof host_args;
  host_args.num_arrays = static_cast<std::uint32_t>(arrays.size());
  host_args.arrays = arrays.data();
  must(backend().launch(held.bound, &host_args, device.stream(), nullptr), "launch");
  must(backend().stream_synchronize(device.stream()), "synchronize");
  for (int i = 0; i < 4096; ++i) {
    if (space[info.workspace_bytes + static_cast<std::uint64_t>(i)] == 0x5a) continue;
    ADD_FAILURE() << "the kernel wrote past its workspace";
    break;
  }
  Outcome outcome;
  outcome.choice = info.choice;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::byte> bytes(c.args[i].bytes.size());
    if (!bytes.empty() && tensors[i].desc.layout == 0) {
      std::memcpy(bytes.data(), Device::pointer(tensors[i].planes[0]), bytes.size());
    }
    outcome.bytes.push_back(std::move(bytes));
  }
  return outcome;
}

std::vector<tern_tensor> upload(Device& device, const OpCase& c) {
  std::vector<tern_tensor> tensors;
  for (const auto& arg : c.args) {
    tern_tensor tensor{};
    tensor.desc = arg.desc;
    if (is_present(arg.desc)) tensor.planes[0] = device.plane(arg.bytes.size(), arg.bytes.data());
    tensors.push_back(tensor);
  }
  return tensors;
}

void store(tern_dtype dtype, std::byte* at, float value) {
  const std::uint16_t half = dtype == TERN_BF16 ? float_to_bf16(value) : float_to_fp16(value);
  if (dtype == TERN_F32) {
    std::memcpy(at, &value, 4);
  } else {
    std::memcpy(at, &half, 2);
  }
}

template <typename Fn>
void each_offset(const TensorDesc& desc, Fn&& fn) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(desc.rank), 0);
  for (std::int64_t n = num_elements(desc); n > 0; --n) {
    std::int64_t offset = 0;
    for (int d = 0; d < desc.rank; ++d) offset += index[static_cast<std::size_t>(d)] * desc.strides[d];
    fn(offset);
    for (int d = desc.rank - 1; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < desc.shape[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

}  // namespace

OpCase::OpCase(std::uint32_t id) : op(id), args(ops::op_spec(id).args.size()) {}

void OpCase::random(int arg, TensorDesc desc, std::uint32_t seed) {
  std::mt19937 bits(seed);
  auto& to = args[static_cast<std::size_t>(arg)];
  to.desc = desc;
  to.bytes.assign(plane_bytes(desc).bytes[0], std::byte{0xff});
  if (is_quantised(desc)) {
    const BlockSize block = packing_block(desc.scheme.packing);
    for (auto& byte : to.bytes) byte = static_cast<std::byte>(bits());
    for (std::size_t at = 0; at < to.bytes.size(); at += static_cast<std::size_t>(block.bytes)) {
      float number = 0.001F * static_cast<float>(bits() % 64);  // the scale; then the minimum
      for (const int half : ops::ref::block_halves(desc.scheme.packing)) {
        const std::uint16_t narrow = float_to_fp16(number);
        std::memcpy(to.bytes.data() + at + half, &narrow, 2);
        number = block.elements == 32 ? -0.25F : 0.03F;
      }
      if (desc.scheme.packing == TERN_PACK_GGUF_MXFP4) to.bytes[at] = static_cast<std::byte>(120 + bits() % 8);
    }
    return;
  }
  each_offset(desc, [&](std::int64_t offset) {
    store(desc.dtype, to.bytes.data() + offset * dtype_bytes(desc.dtype),
          static_cast<float>(static_cast<double>(bits()) / 2147483648.0 - 1.0));
  });
}

void OpCase::integers(int arg, const std::vector<std::int32_t>& values, std::vector<std::int64_t> shape) {
  auto& to = args[static_cast<std::size_t>(arg)];
  if (shape.empty()) shape = {static_cast<std::int64_t>(values.size())};
  to.desc = make_desc(TERN_I32, shape);
  to.bytes.resize(values.size() * 4);
  if (!values.empty()) std::memcpy(to.bytes.data(), values.data(), to.bytes.size());
}

void OpCase::floats(int arg, const std::vector<float>& values) {
  auto& to = args[static_cast<std::size_t>(arg)];
  to.desc = make_desc(TERN_F32, {static_cast<std::int64_t>(values.size())});
  to.bytes.resize(values.size() * 4);
  if (!values.empty()) std::memcpy(to.bytes.data(), values.data(), to.bytes.size());
}

void OpCase::output(int arg, TensorDesc desc) {
  auto& to = args[static_cast<std::size_t>(arg)];
  to.desc = desc;
  to.bytes.assign(plane_bytes(desc).bytes[0], std::byte{0xff});
}

TensorDesc padded(TensorDesc desc, std::int64_t gap) {
  for (int d = desc.rank - 2; d >= 0; --d) {
    desc.strides[d] = desc.strides[d + 1] * desc.shape[d + 1] + (d == desc.rank - 2 ? gap : 0);
  }
  return desc;
}

const std::vector<std::string>& targets() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> names;
    for (const char* name : kTargets) {
      if (Plugin(name, 2).device != nullptr) names.emplace_back(name);
    }
    return names;
  }();
  return found;
}

Outcome run_on(const std::string& target, const OpCase& c) {
  Device device(target, c.num_threads);
  auto tensors = upload(device, c);
  return launch(device, c, tensors);
}

Outcome run_packed(const std::string& target, const OpCase& c, int arg, std::uint32_t use) {
  Device device(target, c.num_threads);
  auto tensors = upload(device, c);
  const tern_tensor plain = tensors[static_cast<std::size_t>(arg)];
  tern_tensor& packed = tensors[static_cast<std::size_t>(arg)];
  tern_packed_info info{};
  info.size = sizeof info;
  must(backend().packed_info(device.get(), &plain.desc, use, &info), "packed_info");
  packed.desc.layout = info.layout;
  packed.planes[0] = device.plane(info.bytes, nullptr);
  must(backend().pack(packed, plain, use, device.stream()), "pack");
  tern_tensor back = plain;
  const auto& bytes = c.args[static_cast<std::size_t>(arg)].bytes;
  back.planes[0] = device.plane(bytes.size(), nullptr);
  std::memset(Device::pointer(back.planes[0]), 0xff, bytes.size());
  must(backend().unpack(back, packed, use, device.stream()), "unpack");
  EXPECT_EQ(std::memcmp(Device::pointer(back.planes[0]), bytes.data(), bytes.size()), 0) << "unpack lost bits";
  return launch(device, c, tensors);
}

void expect_oracle(const OpCase& c, const Outcome& outcome, const std::string& label) {
  const auto& spec = ops::op_spec(c.op);
  std::vector<ops::ref::Tensor> exact, got;
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    descs.push_back(c.args[i].desc);
    const std::span<const std::byte> before(c.args[i].bytes), after(outcome.bytes[i]);
    exact.push_back(is_present(descs[i]) ? ops::ref::decode(descs[i], std::span(&before, 1)) : ops::ref::Tensor{});
    got.push_back(is_present(descs[i]) ? ops::ref::decode(descs[i], std::span(&after, 1)) : ops::ref::Tensor{});
  }
  ops::ref::Call call{c.op, c.attrs, c.accumulate, exact};
  ops::op_rules(c.op).reference(call);
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    if (spec.args[i].role == ops::Role::input || !is_present(descs[i])) continue;
    double worst = 0;
    std::size_t where = 0;
    ASSERT_EQ(exact[i].real.size(), got[i].real.size());
    for (std::size_t e = 0; e < exact[i].real.size(); ++e) {
      const double slack = exact[i].slack.empty() ? 0.0 : exact[i].slack[e];
      const double share = ops::error_share(descs[i].dtype, exact[i].real[e], slack, got[i].real[e], false);
      if (!(share <= worst)) {
        worst = share;
        where = e;
        if (std::isnan(share)) break;
      }
    }
    EXPECT_LE(worst, 1.0) << label << ", " << spec.name << "." << spec.args[i].name << " element " << where
                          << ": expected " << exact[i].real[where] << ", got " << got[i].real[where];
  }
}

void check_on(const std::string& target, const OpCase& c, const std::string& label) {
  const Outcome outcome = run_on(target, c);
  EXPECT_EQ(outcome.choice.substr(outcome.choice.find('@') + 1), target) << "another target's kernel answered";
  expect_oracle(c, outcome, label + " on " + target);
}

void check_everywhere(const OpCase& c, const std::string& label) {
  for (const std::string& target : targets()) check_on(target, c, label);
}

}  // namespace tern::test
