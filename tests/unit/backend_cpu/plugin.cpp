#include "plugin.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/philox.h"
#include "ops/ref/oracle.h"
#include "ops/ref/packing_blocks.h"
#include "ops/rules.h"
#include "ops/table.h"
#include "ops/tolerance.h"
#include "tests/unit/backend_cpu/calls.h"

namespace tern::test {
namespace {

constexpr std::size_t kCanary = 256;
constexpr auto kCanaryByte = std::byte{0xC5};

std::vector<std::int64_t> offsets(const TensorDesc& desc) {
  std::vector<std::int64_t> all;
  const std::int64_t n = num_elements(desc);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = desc.rank - 1; d >= 0; --d) {
      at += rest % desc.shape[d] * desc.strides[d];
      rest /= desc.shape[d];
    }
    all.push_back(at);
  }
  return all;
}

std::size_t bytes_of(const TensorDesc& desc) { return static_cast<std::size_t>(plane_bytes(desc).bytes[0]); }

TensorDesc cut(TensorDesc desc, const std::vector<std::int64_t>& counts) {
  if (desc.rank > 0 && desc.dynamic_dim >= 0 && !counts.empty()) desc.shape[desc.dynamic_dim] = counts[desc.count_slot];
  desc.dynamic_dim = -1;
  return desc;
}

ops::ref::Tensor decode_arg(const Arg& arg, const std::vector<std::int64_t>& counts) {
  const TensorDesc desc = cut(arg.desc, counts);
  const std::span<const std::byte> plane = arg.bytes;
  if (!is_present(desc)) return {};
  return ops::ref::decode(desc, {&plane, 1});
}

// Holds what the plugin left in `call` to the oracle's arguments.
void compare(const Call& call, const std::vector<Arg>& before, const std::vector<ops::ref::Tensor>& expected) {
  const auto& spec = ops::op_spec(call.op);
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    if (!is_present(call.args[i].desc)) continue;
    if (spec.args[i].role == ops::Role::input) {
      EXPECT_EQ(call.args[i].bytes, before[i].bytes) << "input " << i << " was written";
      continue;
    }
    const auto got = decode_arg(call.args[i], call.counts);
    ops::ref::Tensor want = expected[i];
    if (!want.integer.empty()) {  // as the dtype holds them: the oracle leaves the wrapping to the encoding
      Arg stored = blank(make_desc(want.desc.dtype, shape_of(want.desc)));
      ops::ref::encode(want, stored.desc, stored.bytes);
      want.integer = decode_arg(stored, {}).integer;
    }
    const auto dtype = call.args[i].desc.dtype;
    for (std::size_t e = 0; e < want.integer.size(); ++e) {
      if (!want.others.empty() && !want.others[e].empty()) continue;
      if (!want.slack.empty() && std::isinf(want.slack[e])) continue;  // open
      ASSERT_EQ(got.integer[e], want.integer[e]) << "argument " << i << " element " << e;
    }
    ASSERT_EQ(got.real.size(), want.real.size());
    for (std::size_t e = 0; e < want.real.size(); ++e) {
      const double slack = want.slack.empty() ? 0.0 : want.slack[e];
      if (!want.others.empty() && !want.others[e].empty()) continue;
      ASSERT_LE(ops::error_share(dtype, want.real[e], slack, got.real[e], false), 1.0)
          << "argument " << i << " element " << e << ": expected " << want.real[e] << ", found " << got.real[e];
    }
    // The gaps between elements are nobody's.
    std::vector<std::byte> touched(call.args[i].bytes.size());
    const auto size = static_cast<std::size_t>(dtype_bytes(dtype));
    for (const auto at : offsets(call.args[i].desc))
      std::fill_n(touched.begin() + at * static_cast<std::int64_t>(size), size, std::byte{1});
    for (std::size_t b = 0; b < touched.size(); ++b) {
      if (touched[b] != std::byte{0}) continue;
      ASSERT_EQ(call.args[i].bytes[b], before[i].bytes[b]) << "gap byte " << b;
    }
  }
}

}  // namespace

Plugin::Plugin(const std::string& target, int num_threads) {
  const tern_host host = {sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, num_threads, nullptr, nullptr};
  table = tern_backend_entry(&host);
  if (!target.empty()) setenv("TERN_CPU_TARGET", target.c_str(), 1);
  if (table->device_open(&kFirstDevice, &device) == TERN_OK) table->stream_create(device, 0, &stream);
  unsetenv("TERN_CPU_TARGET");
}

Plugin::~Plugin() {
  if (device == nullptr) return;
  table->stream_destroy(stream);
  table->device_close(device);
}

std::string Plugin::last_error() const {
  std::string text(512, '\0');
  table->last_error({text.data(), text.size()});
  return text.c_str();
}

Arg blank(const TensorDesc& desc) { return {desc, std::vector<std::byte>(bytes_of(desc), std::byte{0xff})}; }

Arg random_real(const TensorDesc& desc, std::uint64_t seed, double scale) {
  Arg arg = blank(desc);
  if (is_quantised(desc)) {
    for (std::size_t i = 0; i < arg.bytes.size(); ++i) arg.bytes[i] = static_cast<std::byte>(mix_key(seed, i));
    const auto block = static_cast<std::size_t>(packing_block(desc.scheme.packing).bytes);
    for (std::size_t at = 0; at < arg.bytes.size(); at += block) {
      for (const int half : ops::ref::block_halves(desc.scheme.packing)) {  // exponents of fp16 scales stay small
        arg.bytes[at + static_cast<std::size_t>(half) + 1] &= std::byte{0x3b};
      }
      if (desc.scheme.packing == TERN_PACK_GGUF_MXFP4) arg.bytes[at] = std::byte{125};
    }
    return arg;
  }
  ops::ref::Tensor tensor;
  tensor.desc = desc;
  for (std::int64_t i = 0; i < num_elements(desc); ++i) {
    const double u = static_cast<double>(mix_key(seed, static_cast<std::uint64_t>(i)) >> 11) * 0x1p-52 - 1.0;
    tensor.real.push_back(ops::ref::round_to(desc.dtype, u * scale));
  }
  ops::ref::encode(tensor, desc, arg.bytes);
  return arg;
}

Arg integers(const TensorDesc& desc, const std::vector<std::int64_t>& values) {
  Arg arg = blank(desc);
  ops::ref::Tensor tensor;
  tensor.desc = desc;
  tensor.integer = values;
  ops::ref::encode(tensor, desc, arg.bytes);
  return arg;
}

TensorDesc strided(tern_dtype dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  TensorDesc desc = make_desc(dtype, shape);
  std::copy(strides.begin(), strides.end(), desc.strides);
  return desc;
}

void run(Plugin& p, Call& call) {
  const auto& t = *p.table;
  std::vector<tern_tensor_desc> descs;
  for (const auto& arg : call.args) descs.push_back(arg.desc);
  tern_op_desc desc{sizeof(tern_op_desc),
                    call.op,
                    0,
                    call.accumulate,
                    static_cast<std::uint32_t>(descs.size()),
                    static_cast<std::uint32_t>(call.attrs.size()),
                    descs.data(),
                    call.attrs.data(),
                    nullptr};
  tern_plan plan = nullptr;
  tern_plan_info info{};
  info.size = sizeof info;
  ASSERT_EQ(t.plan(p.device, &desc, nullptr, &plan, &info), TERN_OK) << p.last_error();
  std::vector<tern_tensor> tensors(call.args.size());
  std::vector<std::byte*> memory(call.args.size());
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    tensors[i].desc = call.args[i].desc;
    if (!is_present(call.args[i].desc)) continue;
    const auto& bytes = call.args[i].bytes;
    ASSERT_EQ(t.buffer_create(p.device, bytes.size() + 2 * kCanary, 0, &tensors[i].planes[0].buffer), TERN_OK);
    tensors[i].planes[0].offset = kCanary;
    void* base = nullptr;
    ASSERT_EQ(t.buffer_host_pointer(tensors[i].planes[0].buffer, &base), TERN_OK);
    memory[i] = static_cast<std::byte*>(base);
    std::memset(base, static_cast<int>(kCanaryByte), bytes.size() + 2 * kCanary);
    if (!bytes.empty()) std::memcpy(memory[i] + kCanary, bytes.data(), bytes.size());
  }
  tern_plane workspace{};
  if (info.workspace_bytes > 0) {
    ASSERT_EQ(t.buffer_create(p.device, info.workspace_bytes, 0, &workspace.buffer), TERN_OK);
    ASSERT_EQ(t.fill(workspace, 0xff, info.workspace_bytes, p.stream), TERN_OK);  // what it held before must not matter
  }
  tern_bound bound = nullptr;
  const tern_bind_args given = placed(tensors, workspace);
  ASSERT_EQ(t.bind(plan, &given, &bound), TERN_OK) << p.last_error();
  tern_host_args host_args{};
  host_args.size = sizeof host_args;
  for (std::size_t i = 0; i < call.counts.size(); ++i) host_args.counts[i] = call.counts[i];
  ASSERT_EQ(t.launch(bound, call.counts.empty() ? nullptr : &host_args, p.stream, nullptr), TERN_OK) << p.last_error();
  t.unbind(bound);
  t.plan_destroy(plan);
  if (workspace.buffer != nullptr) t.buffer_destroy(workspace.buffer);
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    if (memory[i] == nullptr) continue;
    auto& bytes = call.args[i].bytes;
    for (std::size_t c = 0; c < kCanary; ++c) {
      ASSERT_EQ(memory[i][c], kCanaryByte) << "written before argument " << i;
      ASSERT_EQ(memory[i][kCanary + bytes.size() + c], kCanaryByte) << "written behind argument " << i;
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), memory[i] + kCanary, bytes.size());
    t.buffer_destroy(tensors[i].planes[0].buffer);
  }
}

void check(Call call, const std::string& label) {
  SCOPED_TRACE(label);
  const auto& spec = ops::op_spec(call.op);
  std::vector<ops::ref::Tensor> expected;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const bool output = spec.args[i].role == ops::Role::output && (call.accumulate >> i & 1U) == 0;
    expected.push_back(output ? ops::ref::Tensor{} : decode_arg(call.args[i], call.counts));
    expected.back().desc = cut(call.args[i].desc, call.counts);
  }
  ops::ref::Call oracle{call.op, call.attrs, call.accumulate, expected};
  ops::op_rules(call.op).reference(oracle);
  for (const char* target : kTargets) {
    SCOPED_TRACE(target);
    Plugin plugin(target, 3);
    if (plugin.device == nullptr) continue;
    Call mine = call;
    run(plugin, mine);
    if (!::testing::Test::HasFatalFailure()) compare(mine, call.args, expected);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tern::test
