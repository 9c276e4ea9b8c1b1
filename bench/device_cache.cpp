// attention_paged over caches of each dtype on any device:
//   device_cache BACKEND.so [sequences keys rows heads kv_heads head_dim]
// Each of the sequences has so many keys and, in this step, so many rows: one is decoding. Prints microseconds of a
// call, and how many GB of the cache it read in a second.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <vector>

#include "accel/kernel.h"
#include "base/dtype.h"
#include "nn/cache_spec.h"
#include "ops/attention_paged.h"
#include "ops/check.h"
#include "tern/accel_ops.h"

namespace {

using namespace tern;

struct Sizes {
  std::int64_t sequences = 32, keys = 4096, rows = 1, heads = 32, kv_heads = 8, head_dim = 128;
};

class Step {
 public:
  Step(const accel::DevicePtr& device, const Sizes& sizes, tern_dtype cache)
      : device_(device), stream_(device->make_stream()) {
    const tern_dtype activations = device->info().activation_dtype;
    const std::int64_t block = std::max(1, device->info().preferred_kv_block);
    const std::int64_t each = (sizes.keys + block - 1) / block, blocks = sizes.sequences * each + 1;
    const std::int64_t rows = sizes.sequences * sizes.rows;
    desc_.op = TERN_OP_ATTENTION_PAGED;
    desc_.args.assign(TERN_ATTENTION_PAGED_NUM_ARGS, absent_desc());
    args_.resize(desc_.args.size());
    put(TERN_ATTENTION_PAGED_Q, make_desc(activations, {rows, sizes.heads, sizes.head_dim}));
    for (const int arg : {TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_V_CACHE}) {
      put(arg, nn::cache_desc(cache, blocks, block, sizes.kv_heads, sizes.head_dim));
      read_ += total_bytes(desc_.args[static_cast<std::size_t>(arg)]);
    }
    if (ops::has_scales(cache)) {
      for (const int arg : {TERN_ATTENTION_PAGED_K_SCALE, TERN_ATTENTION_PAGED_V_SCALE}) {
        put(arg, nn::scale_desc(blocks, block, sizes.kv_heads));
        read_ += total_bytes(desc_.args[static_cast<std::size_t>(arg)]);
      }
    }
    std::vector<std::int32_t> table(static_cast<std::size_t>(blocks - 1));
    std::iota(table.begin(), table.end(), 1);
    put_integers(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, {sizes.sequences, each});
    for (std::int64_t s = 0; s <= sizes.sequences; ++s) bounds_.push_back(static_cast<std::int32_t>(s * sizes.rows));
    put_integers(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, bounds_, {sizes.sequences + 1});
    lengths_.assign(static_cast<std::size_t>(sizes.sequences), static_cast<std::int32_t>(sizes.keys));
    put_integers(TERN_ATTENTION_PAGED_KV_LENS, lengths_, {sizes.sequences});
    put(TERN_ATTENTION_PAGED_OUT, make_desc(activations, {rows, sizes.heads, sizes.head_dim}));
    tern_attention_paged_attrs attrs{};
    attrs.scale = 0.1F;
    attrs.causal = 1;
    attrs.max_seqlen_q = static_cast<std::int32_t>(sizes.rows);
    attrs.max_seqlen_k = static_cast<std::int32_t>(sizes.keys);
    desc_.attrs = ops::pack_attrs(attrs);
    plan_ = accel::Plan(device, desc_, {});
    workspace_ = device->allocate(std::max<std::uint64_t>(plan_.info().workspace_bytes, 64), "workspace");
    bound_ = plan_.bind(args_, {.workspace = workspace_.plane()});
  }

  // The fastest of some rounds, in seconds of a call.
  double seconds() const {
    const tern_host_array arrays[] = {{bounds_.data(), static_cast<std::int64_t>(bounds_.size())},
                                      {lengths_.data(), static_cast<std::int64_t>(lengths_.size())}};
    tern_host_args host{};
    host.size = sizeof host;
    host.arrays = arrays;
    host.num_arrays = 2;
    constexpr int kRounds = 6, kCalls = 20;
    double best = 1e30;
    for (int round = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) bound_.launch(host, stream_);
      stream_.synchronize();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls);
    }
    return best;
  }
  [[nodiscard]] double gigabytes() const { return static_cast<double>(read_) / 1e9; }
  [[nodiscard]] const char* kernel() const { return plan_.info().choice; }

 private:
  // Bytes that are small numbers in every dtype.
  void put(int arg, const TensorDesc& desc) {
    const auto at = static_cast<std::size_t>(arg);
    buffers_.push_back(device_->allocate(std::max<std::uint64_t>(total_bytes(desc), 64), "an argument"));
    device_->fill(buffers_.back().plane(), 0x3c, buffers_.back().bytes(), stream_);
    desc_.args[at] = args_[at].desc = desc;
    args_[at].planes[0] = buffers_.back().plane();
  }
  void put_integers(int arg, const std::vector<std::int32_t>& values, std::initializer_list<std::int64_t> shape) {
    put(arg, make_desc(TERN_I32, shape));
    device_->copy_to_device(buffers_.back().plane(), std::as_bytes(std::span(values)), stream_);
    stream_.synchronize();
  }

  accel::DevicePtr device_;
  accel::Stream stream_;
  std::vector<accel::Buffer> buffers_;
  accel::OpDesc desc_;
  std::vector<tern_tensor> args_;
  std::vector<std::int32_t> bounds_, lengths_;
  std::uint64_t read_ = 0;
  accel::Plan plan_;
  accel::Buffer workspace_;
  accel::Bound bound_;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: device_cache BACKEND.so [sequences keys rows heads kv_heads head_dim]\n");
    return 2;
  }
  Sizes sizes;
  std::int64_t* const words[] = {&sizes.sequences, &sizes.keys,     &sizes.rows,
                                 &sizes.heads,     &sizes.kv_heads, &sizes.head_dim};
  for (int i = 2; i < argc && i < 8; ++i) *words[i - 2] = std::atoll(argv[i]);
  const accel::DevicePtr device = accel::Device::open(accel::Backend::load(argv[1]).value(), 0).value();
  std::printf("%s: %lld sequences of %lld keys, %lld rows each, %lld heads over %lld of %lld\n", device->info().name,
              static_cast<long long>(sizes.sequences), static_cast<long long>(sizes.keys),
              static_cast<long long>(sizes.rows), static_cast<long long>(sizes.heads),
              static_cast<long long>(sizes.kv_heads), static_cast<long long>(sizes.head_dim));
  for (const tern_dtype cache : {TERN_BF16, TERN_I8, TERN_F8_E4M3}) {
    const Step step(device, sizes, cache);
    const double seconds = step.seconds();
    std::printf("%8s %8s %12.1f us %10.1f GB/s\n", std::string(dtype_name(cache)).c_str(), step.kernel(), seconds * 1e6,
                step.gigabytes() / seconds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_cache: %s\n", error.what());
    return 1;
  }
}
