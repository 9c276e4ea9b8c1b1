// attention_paged over caches of each dtype on the cpu backend, through its C interface: a row of decoding over long
// contexts, or of `sequences` over shorter ones. cpu_cache [threads] [heads kv_heads head_dim] [sequences]. Dtypes take
// turns, and the fastest run of each counts. So much is read between two runs of one that its cache isn't in the cpu's.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "tern/accel.h"
#include "tern/accel_ops.h"

namespace {

constexpr int kRuns = 15;
constexpr std::size_t kOther = std::size_t{256} << 20;
volatile std::byte sink;

struct Heads {
  std::int64_t heads = 9, kv_heads = 3, head_dim = 64;
  std::int64_t sequences = 1;  // each with a row
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

// A row of each sequence over `keys` keys in a cache of `dtype`, a head's rows of a block one after the other as the
// engine has them. Blocks of sequences alternate, as those that grow together have them.
class Decode {
 public:
  Decode(Device& device, const Heads& heads, tern_dtype dtype, std::int64_t keys) : device_(device) {
    constexpr std::int64_t kBlock = 16;
    const std::int64_t rows = heads.sequences, each = (keys + kBlock - 1) / kBlock, blocks = each * rows + 1;
    args_.resize(TERN_ATTENTION_PAGED_NUM_ARGS);
    for (auto& arg : args_) arg.desc.dynamic_dim = -1;
    put(TERN_ATTENTION_PAGED_Q, desc_of(TERN_F32, {rows, heads.heads, heads.head_dim}));
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
    for (std::int64_t row = 0; row < rows; ++row) {
      bounds_.push_back(static_cast<std::int32_t>(row + 1));
      for (std::int64_t i = 0; i < each; ++i) table.push_back(static_cast<std::int32_t>(1 + i * rows + row));
    }
    lengths_.assign(static_cast<std::size_t>(rows), static_cast<std::int32_t>(keys));
    put_integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, {rows, each});
    put_integers(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, bounds_, {rows + 1});
    put_integers(TERN_ATTENTION_PAGED_KV_LENS, lengths_, {rows});
    put(TERN_ATTENTION_PAGED_OUT, desc_of(TERN_F32, {rows, heads.heads, heads.head_dim}));
    bind(keys);
  }

  double seconds() {
    const tern_host_array arrays[] = {{bounds_.data(), std::ssize(bounds_)}, {lengths_.data(), std::ssize(lengths_)}};
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
    for (const auto& arg : args_) descs_.push_back(arg.desc);
    alias_.assign(args_.size(), -1);
    attrs_.scale = 0.125F;
    attrs_.causal = 1;
    attrs_.max_seqlen_q = 1;
    attrs_.max_seqlen_k = keys;
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
  std::vector<std::int32_t> bounds_ = {0}, lengths_;
};

}  // namespace

int main(int argc, char** argv) {
  Device device(argc > 1 ? std::atoi(argv[1]) : 2);
  Heads heads;
  if (argc > 4) heads = {std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  if (argc > 5) heads.sequences = std::atoi(argv[5]);
  constexpr tern_dtype kDtypes[] = {TERN_F32, TERN_BF16, TERN_I8, TERN_F8_E4M3};
  std::printf("%8s", "keys");
  for (const tern_dtype dtype : kDtypes) std::printf(" %12s us", std::string(tern::dtype_name(dtype)).c_str());
  std::printf("\n");
  const std::vector<std::byte> other(kOther, std::byte{1});
  for (const std::int64_t all_keys : {1024, 4096, 8192, 16384, 32768}) {
    const std::int64_t keys = std::max<std::int64_t>(1, all_keys / heads.sequences);
    std::vector<std::unique_ptr<Decode>> calls;
    for (const tern_dtype dtype : kDtypes) calls.push_back(std::make_unique<Decode>(device, heads, dtype, keys));
    std::vector<double> best(calls.size(), 1e30);
    for (int run = 0; run < kRuns; ++run) {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        for (std::size_t at = 0; at < other.size(); at += 64) sink = other[at];
        best[i] = std::min(best[i], calls[i]->seconds());
      }
    }
    std::printf("%8lld", static_cast<long long>(keys));
    for (const double seconds : best) std::printf(" %15.1f", seconds * 1e6);
    std::printf("\n");
  }
  return 0;
}
