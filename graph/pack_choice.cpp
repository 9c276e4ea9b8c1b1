#include "graph/pack_choice.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "graph/bind.h"
#include "ops/rules.h"
#include "ops/table.h"

namespace tern::graph {
namespace {

constexpr std::uint64_t kLeastBytes = 64 << 10;     // of a weight: less is not worth asking for
constexpr std::uint64_t kMostBytes = 512ULL << 20;  // that measuring may take for a while
constexpr std::uint64_t kFlushBytes = 32 << 20;     // written between runs: a step finds its weights in no cache
constexpr double kGain = 0.9;                       // of the time as stored
constexpr double kLoss = 1.05;
constexpr double kLongRun = 20e-3;  // seconds
constexpr int kRounds = 5;

// What a packable argument of this node is used for; 0: not packable here.
std::uint32_t uses_of(const Graph& graph, const Node& node, std::size_t arg) {
  const ops::OpSpec& spec = ops::op_spec(node.call.op);
  if ((spec.args[arg].flags & ops::kPackable) == 0 || node.on_host) return 0;
  const std::vector<TensorDesc> descs = graph.arg_descs(node.call);
  return ops::op_rules(node.call.op)
      .uses({node.call.op, descs, node.call.attrs, node.call.accumulate}, static_cast<int>(arg));
}

// All that a graph does with one weight.
struct Readers {
  std::vector<PackedArg> args;
  TensorDesc desc;  // of the weight
  std::uint32_t uses = 0;
  bool plain = false;  // something reads or writes it as stored
};

std::map<std::string, Readers> readers_of(const Graph& graph) {
  std::map<std::string, Readers> readers;
  for (const Storage& storage : graph.storages()) {
    if (storage.kind != StorageKind::constant) continue;
    readers[storage.name].plain = storage.versions > 1;
    readers[storage.name].desc = storage.desc;
  }
  const auto weight = [&](Value value) -> Readers* {
    if (!value.present() || graph.storage_of(value).kind != StorageKind::constant) return nullptr;
    return &readers.at(graph.storage_of(value).name);
  };
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (std::size_t a = 0; a < node.call.inputs.size(); ++a) {
      const Value value = node.call.inputs[a];
      Readers* const reader = weight(value);
      if (reader == nullptr) continue;
      const std::uint32_t uses = graph.info(value).base >= 0 ? 0 : uses_of(graph, node, a);
      reader->plain = reader->plain || uses == 0;
      reader->uses |= uses;
      reader->args.push_back({static_cast<std::int32_t>(n), a, graph.storage_of(value).name});
    }
  }
  for (const Output& output : graph.outputs()) {
    if (Readers* const reader = weight(output.value); reader != nullptr) reader->plain = true;
  }
  return readers;
}

// Times the calls that read one weight, with it as stored and packed, on memory of its own.
class Trial {
 public:
  Trial(accel::DevicePtr device, accel::ChoiceCache& choices) : device_(std::move(device)), choices_(choices) {}

  [[nodiscard]] bool pays(const Graph& graph, const Readers& readers, const tern_packed_info& info) {
    if (total_bytes(readers.desc) < kLeastBytes) return false;
    std::map<std::string, Call> calls;  // equal ones once: layers are alike
    for (const PackedArg& arg : readers.args) {
      const Node& node = graph.nodes()[static_cast<std::size_t>(arg.node)];
      // Trials run on zeros, and rows of weight 0 take no part in a loss: they would tell nothing.
      if (node.call.op == TERN_OP_LINEAR_CROSS_ENTROPY) return false;
      Call call{op_desc(graph, node.call), {}, arg.arg};
      call.packed = call.plain;
      call.packed.args[arg.arg].layout = info.layout;
      const std::string key = call.plain.key();
      calls.try_emplace(key, std::move(call));
    }
    const std::string key = key_of(calls, info.layout);
    std::string verdict = choices_.remembered(key);
    if (verdict != kPacked && verdict != kStored) {
      if (device_->info().described != 0) return false;
      verdict = measure(calls, info, readers.uses) ? kPacked : kStored;
    }
    choices_.remember(key, verdict);
    return verdict == kPacked;
  }

 private:
  static constexpr const char* kPacked = "packed";
  static constexpr const char* kStored = "stored";

  struct Call {
    accel::OpDesc plain, packed;
    std::size_t arg;  // the weight's
  };
  using Calls = std::map<std::string, Call>;

  // The calls without the number of rows.
  [[nodiscard]] static std::string key_of(const Calls& calls, std::int32_t layout) {
    std::set<std::string> keys;
    for (const auto& [name, call] : calls) {
      accel::OpDesc desc = call.plain;
      for (std::size_t a = 0; a < desc.args.size(); ++a) {
        if (a != call.arg) std::fill_n(desc.args[a].shape, TERN_MAX_RANK, desc.args[a].rank == 0 ? 0 : 1);
      }
      keys.insert(desc.key());
    }
    return cat("pack ", layout, ": ", join({keys.begin(), keys.end()}, " + "));
  }

  struct Times {
    double many = std::numeric_limits<double>::infinity();  // at the planned number of rows
    double one = std::numeric_limits<double>::infinity();
  };

  bool measure(const Calls& calls, const tern_packed_info& info, std::uint32_t uses) {
    if (!stream_) stream_ = device_->make_stream();
    Times plain{0, 0}, packed{0, 0};
    for (const auto& [key, call] : calls) {
      if (!time(call, info, uses, plain, packed)) return false;
    }
    const bool faster = packed.many <= kGain * plain.many || packed.one <= kGain * plain.one;
    const bool slower = packed.many > kLoss * plain.many || packed.one > kLoss * plain.one;
    log_debug(cat(device_->name(), ": a weight of ", calls.begin()->first, ": as stored ", plain.many * 1e6, " and ",
                  plain.one * 1e6, " us, packed ", packed.many * 1e6, " and ", packed.one * 1e6, " us"));
    return faster && !slower;
  }

  // Adds a call's times to both sums; false where it would take too much memory.
  bool time(const Call& call, const tern_packed_info& info, std::uint32_t uses, Times& plain_sum, Times& packed_sum) {
    accel::PlanOptions options;  // as the program plans them
    options.workspace_limit = device_->info().largest_allocation_bytes;
    const accel::Plan plain_plan = choices_.plan(device_, call.plain, options);
    const accel::Plan packed_plan = choices_.plan(device_, call.packed, options);
    const std::uint64_t workspace = std::max(plain_plan.info().workspace_bytes, packed_plan.info().workspace_bytes);
    std::uint64_t bytes = kFlushBytes + info.bytes + workspace;
    for (const TensorDesc& arg : call.plain.args) bytes += is_present(arg) ? total_bytes(arg) : 0;
    if (bytes > kMostBytes) return false;
    memory_.clear();
    const tern_plane flush = zeros(kFlushBytes);
    const tern_plane space = workspace > 0 ? zeros(workspace) : tern_plane{};
    std::vector<tern_tensor> tensors;
    for (const TensorDesc& arg : call.plain.args) tensors.push_back(zero_tensor(arg));
    std::vector<tern_tensor> with_pack = tensors;
    with_pack[call.arg].desc.layout = info.layout;
    with_pack[call.arg].planes[0] = zeros(info.bytes);
    for (int p = 1; p < TERN_MAX_PLANES; ++p) with_pack[call.arg].planes[p] = {};
    accel::check(device_->api().pack(with_pack[call.arg], tensors[call.arg], uses, stream_.raw()), device_->backend(),
                 cat(device_->name(), ": packing a weight"));
    std::vector<std::byte> scratch(
        std::max(plain_plan.info().host_scratch_bytes, packed_plan.info().host_scratch_bytes));
    const accel::BindMemory memory{space, zeros(sizeof(tern_host_args::counts)), scratch.data()};
    const accel::Bound plain = plain_plan.bind(tensors, memory);
    const accel::Bound packed = packed_plan.bind(with_pack, memory);
    for (double Times::*rows : {&Times::many, &Times::one}) {
      const tern_host_args args = host_args(call.plain, rows == &Times::one);
      device_->copy_to_device(memory.counts, std::as_bytes(std::span(args.counts)), stream_);
      double best_plain = std::numeric_limits<double>::infinity(), best_packed = best_plain;
      (void)seconds_of(plain, args, flush);
      const int rounds = seconds_of(packed, args, flush) > kLongRun ? 2 : kRounds;
      for (int round = 0; round < rounds; ++round) {
        best_plain = std::min(best_plain, seconds_of(plain, args, flush));
        best_packed = std::min(best_packed, seconds_of(packed, args, flush));
      }
      plain_sum.*rows += best_plain;
      packed_sum.*rows += best_packed;
    }
    return true;
  }

  [[nodiscard]] static tern_host_args host_args(const accel::OpDesc& desc, bool one) {
    tern_host_args args{};
    args.size = sizeof(args);
    for (const TensorDesc& arg : desc.args) {
      if (arg.rank != 0 && arg.dynamic_dim >= 0) {
        const std::int64_t planned = arg.shape[static_cast<std::size_t>(arg.dynamic_dim)];
        args.counts[arg.count_slot] = one ? std::min<std::int64_t>(1, planned) : planned;
      }
    }
    return args;
  }

  [[nodiscard]] double seconds_of(const accel::Bound& bound, const tern_host_args& args, tern_plane flush) const {
    using Clock = std::chrono::steady_clock;
    device_->fill(flush, 1, kFlushBytes, stream_);
    stream_.synchronize();
    const auto begin = Clock::now();
    (void)bound.launch(args, stream_);
    stream_.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  tern_plane zeros(std::uint64_t bytes) {
    memory_.push_back(device_->allocate(bytes, "measuring a packed weight"));
    device_->fill(memory_.back().plane(), 0, bytes, stream_);
    return memory_.back().plane();
  }

  tern_tensor zero_tensor(const TensorDesc& desc) {
    tern_tensor tensor{};
    tensor.desc = desc;
    const PlaneBytes planes = is_present(desc) ? plane_bytes(desc) : PlaneBytes{};
    for (int p = 0; p < TERN_MAX_PLANES; ++p) {
      if (planes.bytes[p] != 0) tensor.planes[p] = zeros(planes.bytes[p]);
    }
    return tensor;
  }

  accel::DevicePtr device_;
  accel::ChoiceCache& choices_;
  accel::Stream stream_;
  std::vector<accel::Buffer> memory_;
};

}  // namespace

std::vector<PackedArg> choose_packs(const Graph& graph, const accel::DevicePtr& device, accel::ChoiceCache& choices,
                                    Packing packing, const TensorStore* store) {
  std::vector<PackedArg> chosen;
  if (packing == Packing::never || !device->can(TERN_CAP_EAGER)) return chosen;
  Trial trial(device, choices);
  for (auto& [name, readers] : readers_of(graph)) {
    if (readers.args.empty() || readers.plain) continue;
    const auto info = packed_info(*device, name, readers.desc, readers.uses);
    if (!info) continue;
    if (store == nullptr || !store->has_pack(name, readers.uses)) {
      if (store != nullptr && store->plain_is_held(name)) continue;
      if (packing == Packing::measured && !trial.pays(graph, readers, *info)) continue;
    }
    for (PackedArg& arg : readers.args) {
      arg.uses = readers.uses;
      arg.layout = info->layout;
      arg.bytes = info->bytes;
      chosen.push_back(std::move(arg));
    }
  }
  return chosen;
}

}  // namespace tern::graph
