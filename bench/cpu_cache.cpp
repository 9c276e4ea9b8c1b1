// attention_paged over caches of each dtype on the cpu backend, through its C interface: a row of decoding over long
// contexts. cpu_cache [threads] [heads kv_heads head_dim]. Dtypes take turns, and the fastest run of each counts.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace {

constexpr int kRuns = 15;

struct Heads {
  std::int64_t heads = 9, kv_heads = 3, head_dim = 64;
};

void must(tern_status status, const char* what) {
  if (status == TERN_OK) return;
  std::fprintf(stderr, "cpu_cache: %s failed with status %d\n", what, status);
  std::exit(1);
}

tern_tensor_desc desc_of(tern_dtype dtype, const std::vector<std::int64_t>& shape) {
  tern_tensor_desc desc{};
  desc.dtype = dtype;
  desc.rank = static_cast<std::int32_t>(shape.size());
  desc.dynamic_dim = -1;
  std::int64_t stride = 1;
  for (int d = desc.rank - 1; d >= 0; --d) {
    desc.shape[d] = shape[static_cast<std::size_t>(d)];
    desc.strides[d] = stride;
    stride *= desc.shape[d];
  }
  return desc;
}

class Device {
 public:
  explicit Device(int threads) : host_{sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, threads, nullptr, nullptr} {
    api_ = tern_backend_entry(&host_);
    constexpr tern_open_args first = {.size = sizeof(tern_open_args)};
    must(api_->device_open(&first, &device_), "device_open");
    must(api_->stream_create(device_, 0, &stream_), "stream_create");
  }
  [[nodiscard]] const tern_backend& api() const { return *api_; }
  [[nodiscard]] tern_device raw() const { return device_; }
  [[nodiscard]] tern_stream stream() const { return stream_; }
  // Bytes that are small numbers in every dtype.
  tern_plane plane(std::uint64_t bytes) {
    tern_buffer buffer = nullptr;
    must(api_->buffer_create(device_, std::max<std::uint64_t>(bytes, 64), 0, &buffer), "buffer_create");
    std::memset(pointer(buffer), 0x3c, bytes);
    return {buffer, 0};
  }
  void* pointer(tern_buffer buffer) const {
    void* at = nullptr;
    must(api_->buffer_host_pointer(buffer, &at), "buffer_host_pointer");
    return at;
  }

 private:
  tern_host host_;
  const tern_backend* api_ = nullptr;
  tern_device device_ = nullptr;
  tern_stream stream_ = nullptr;
};

// One row over `keys` keys in a cache of `dtype`, a head's rows of a block one after the other as the engine has them.
class Decode {
 public:
  Decode(Device& device, const Heads& heads, tern_dtype dtype, std::int64_t keys) : device_(device) {
    constexpr std::int64_t kBlock = 16;
    const std::int64_t blocks = keys / kBlock + 1;
    args_.resize(TERN_ATTENTION_PAGED_NUM_ARGS);
    for (auto& arg : args_) arg.desc.dynamic_dim = -1;
    put(TERN_ATTENTION_PAGED_Q, desc_of(TERN_F32, {1, heads.heads, heads.head_dim}));
    tern_tensor_desc cache = desc_of(dtype, {blocks, kBlock, heads.kv_heads, heads.head_dim});
    cache.strides[1] = heads.head_dim;
    cache.strides[2] = kBlock * heads.head_dim;
    put(TERN_ATTENTION_PAGED_K_CACHE, cache);
    put(TERN_ATTENTION_PAGED_V_CACHE, cache);
    if (dtype == TERN_I8 || dtype == TERN_F8_E4M3) {
      tern_tensor_desc scales = desc_of(TERN_F32, {blocks, kBlock, heads.kv_heads});
      scales.strides[1] = 1;
      scales.strides[2] = kBlock;
      put(TERN_ATTENTION_PAGED_K_SCALE, scales);
      put(TERN_ATTENTION_PAGED_V_SCALE, scales);
    }
    std::vector<std::int32_t> table;
    for (std::int64_t i = 1; i < blocks; ++i) table.push_back(static_cast<std::int32_t>(i));
    put_integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, {1, blocks - 1});
    put_integers(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, {0, 1}, {2});
    put_integers(TERN_ATTENTION_PAGED_KV_LENS, {static_cast<std::int32_t>(keys)}, {1});
    put(TERN_ATTENTION_PAGED_OUT, desc_of(TERN_F32, {1, heads.heads, heads.head_dim}));
    bind(keys);
  }

  double seconds() {
    const tern_host_array arrays[] = {{bounds_, 2}, {&length_, 1}};
    tern_host_args host{};
    host.size = sizeof host;
    host.arrays = arrays;
    host.num_arrays = 2;
    const auto start = std::chrono::steady_clock::now();
    must(device_.api().launch(bound_, &host, device_.stream(), nullptr), "launch");
    must(device_.api().stream_synchronize(device_.stream()), "synchronize");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  static std::uint64_t bytes_of(const tern_tensor_desc& desc) {
    std::uint64_t bytes = static_cast<std::uint64_t>(tern::dtype_bytes(desc.dtype));
    for (int d = 0; d < desc.rank; ++d) bytes *= static_cast<std::uint64_t>(desc.shape[d]);
    return bytes;
  }
  void put(int arg, const tern_tensor_desc& desc) {
    args_[static_cast<std::size_t>(arg)].desc = desc;
    args_[static_cast<std::size_t>(arg)].planes[0] = device_.plane(bytes_of(desc));
  }
  void put_integers(int arg, const std::vector<std::int32_t>& values, const std::vector<std::int64_t>& shape) {
    put(arg, desc_of(TERN_I32, shape));
    std::memcpy(device_.pointer(args_[static_cast<std::size_t>(arg)].planes[0].buffer), values.data(),
                4 * values.size());
  }
  void bind(std::int64_t keys) {
    length_ = static_cast<std::int32_t>(keys);
    for (const auto& arg : args_) descs_.push_back(arg.desc);
    alias_.assign(args_.size(), -1);
    attrs_.scale = 0.125F;
    attrs_.causal = 1;
    attrs_.max_seqlen_q = 1;
    attrs_.max_seqlen_k = length_;
    tern_op_desc desc{};
    desc.size = sizeof desc;
    desc.op = TERN_OP_ATTENTION_PAGED;
    desc.num_args = TERN_ATTENTION_PAGED_NUM_ARGS;
    desc.attrs_size = sizeof attrs_;
    desc.args = descs_.data();
    desc.attrs = &attrs_;
    desc.alias = alias_.data();
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    must(device_.api().plan(device_.raw(), &desc, nullptr, &plan, &info), "plan");
    tern_bind_args args{};
    args.size = sizeof args;
    args.num_args = TERN_ATTENTION_PAGED_NUM_ARGS;
    args.args = args_.data();
    args.workspace = device_.plane(info.workspace_bytes);
    must(device_.api().bind(plan, &args, &bound_), "bind");
  }

  Device& device_;
  std::vector<tern_tensor> args_;
  std::vector<tern_tensor_desc> descs_;
  std::vector<std::int8_t> alias_;
  tern_attention_paged_attrs attrs_{};
  tern_bound bound_ = nullptr;
  std::int32_t bounds_[2] = {0, 1};
  std::int32_t length_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Device device(argc > 1 ? std::atoi(argv[1]) : 2);
  Heads heads;
  if (argc > 4) heads = {std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  constexpr tern_dtype kDtypes[] = {TERN_F32, TERN_BF16, TERN_I8, TERN_F8_E4M3};
  std::printf("%8s", "keys");
  for (const tern_dtype dtype : kDtypes) std::printf(" %12s us", std::string(tern::dtype_name(dtype)).c_str());
  std::printf("\n");
  for (const std::int64_t keys : {1024, 4096, 8192, 16384, 32768}) {
    std::vector<std::unique_ptr<Decode>> calls;
    for (const tern_dtype dtype : kDtypes) calls.push_back(std::make_unique<Decode>(device, heads, dtype, keys));
    std::vector<double> best(calls.size(), 1e30);
    for (int run = 0; run < kRuns; ++run) {
      for (std::size_t i = 0; i < calls.size(); ++i) best[i] = std::min(best[i], calls[i]->seconds());
    }
    std::printf("%8lld", static_cast<long long>(keys));
    for (const double seconds : best) std::printf(" %15.1f", seconds * 1e6);
    std::printf("\n");
  }
  return 0;
}
