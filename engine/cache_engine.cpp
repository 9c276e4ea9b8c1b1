#include "engine/cache_engine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "engine/cache_dtype.h"
#include "ops/attention_paged.h"

namespace tern::engine {
namespace {

std::int64_t blocks_of(std::int64_t tokens, std::int64_t block_size) { return (tokens + block_size - 1) / block_size; }

// Bytes of one token in the caches of all layers, and of its id.
std::uint64_t bytes_per_token(const std::vector<nn::CacheSpec>& specs, tern_dtype dtype) {
  std::uint64_t bytes = sizeof(std::int32_t);
  for (const nn::CacheSpec& spec : specs) {
    bytes += total_bytes(make_desc(dtype, {spec.kv_heads, spec.key_dim + spec.value_dim}));
    if (ops::has_scales(dtype)) bytes += total_bytes(make_desc(TERN_F32, {spec.kv_heads, 2}));
  }
  return bytes;
}

std::string free_scope(const graph::TensorStore& store) {
  for (std::int64_t n = 0;; ++n) {
    std::string scope = cat("cache", n, "/");
    if (store.find(nn::token_cache_name(scope)) == nullptr) return scope;
  }
}

constexpr std::int64_t kReserved = 1;  // block 0 of every cache, where rows of padding go, and seat 0 of the tables

std::uint64_t bytes_of_states(const std::vector<nn::CacheSpec>& specs, std::int64_t rows) {
  std::uint64_t bytes = 0;
  for (const nn::CacheSpec& spec : specs) {
    for (const nn::StateSpec& state : spec.states) bytes += total_bytes(nn::state_desc(rows, state.shape));
  }
  return bytes;
}

// Of one seat's states each.
std::int64_t num_copies(const CacheOptions& options) {
  return options.state_snapshots + (options.guesses ? options.max_num_seqs : 0);
}

// What each seat has of its own: the blocks of its sequence, and the states of all layers; and the copies of these.
std::uint64_t bytes_of_seats(const std::vector<nn::CacheSpec>& specs, const CacheOptions& options,
                             std::int64_t block_size) {
  const std::int64_t seats = options.max_num_seqs + kReserved;
  return total_bytes(make_desc(TERN_I32, {seats, blocks_of(options.max_model_len, block_size)})) +
         bytes_of_states(specs, seats + num_copies(options));
}

// What a cache in 8 bits takes, beside one in bfloat16.
void tell_bytes(const CacheEngine& cache, const std::vector<nn::CacheSpec>& specs) {
  if (!ops::has_scales(cache.dtype())) return;
  const auto tokens = static_cast<std::uint64_t>(cache.num_blocks() * cache.block_size());
  log_info(cat("key-value cache: ", tokens, " tokens in ", cache_dtype_name(cache.dtype()), " take ",
               human_bytes(tokens * bytes_per_token(specs, cache.dtype())), ", in bfloat16 they would take ",
               human_bytes(tokens * bytes_per_token(specs, TERN_BF16))));
}

bool follows(const StateCopy& first, const StateCopy& other, std::int32_t distance) {
  return other.to_seat == first.to_seat && other.seat == first.seat + distance && other.place == first.place + distance;
}

// Of this cache and of the one beside it.
std::uint64_t bytes_per_token(const std::vector<nn::CacheSpec>& specs, const CacheOptions& options) {
  const std::uint64_t beside = options.beside.empty() ? 0 : bytes_per_token(options.beside, options.beside_dtype);
  return bytes_per_token(specs, options.dtype) + beside;
}

// Blocks for sequences that the budget holds, no tensor larger than the device allocates.
std::int64_t affordable_blocks(const accel::Device& device, const std::vector<nn::CacheSpec>& specs,
                               const CacheOptions& options, std::int64_t block_size, std::uint64_t budget) {
  const std::uint64_t block = bytes_per_token(specs, options) * static_cast<std::uint64_t>(block_size);
  std::uint64_t blocks = budget / std::max<std::uint64_t>(block, 1);
  const auto fit = [&](const std::vector<nn::CacheSpec>& some, tern_dtype dtype) {
    for (const nn::CacheSpec& spec : some) {
      const std::int64_t width = std::max(spec.key_dim, spec.value_dim);
      const std::uint64_t part = total_bytes(make_desc(dtype, {block_size, spec.kv_heads, width}));
      blocks = std::min(blocks, device.info().largest_allocation_bytes / std::max<std::uint64_t>(part, 1));
    }
  };
  fit(specs, options.dtype);
  fit(options.beside, options.beside_dtype);
  const auto all = static_cast<std::int64_t>(std::min<std::uint64_t>(blocks, std::numeric_limits<std::int32_t>::max()));
  return std::max<std::int64_t>(all - kReserved, 0);
}

// Copies of states that there may be: of an eighth of the memory, and of what one sequence leaves.
std::int64_t affordable_snapshots(const std::vector<nn::CacheSpec>& specs, CacheOptions options,
                                  std::int64_t block_size, std::uint64_t budget) {
  const std::uint64_t copy = bytes_of_states(specs, 1);
  if (copy == 0) return 0;
  const std::int64_t most = std::exchange(options.state_snapshots, 0);
  const std::int64_t blocks = blocks_of(options.max_model_len, block_size) + kReserved;
  const std::uint64_t needed = bytes_of_seats(specs, options, block_size) +
                               bytes_per_token(specs, options) * static_cast<std::uint64_t>(blocks * block_size);
  const std::uint64_t room = std::min(budget / 8, budget - std::min(budget, needed));
  return std::min(most, static_cast<std::int64_t>(room / copy));
}

// Lowers options.max_model_len where that is asked for and needed, and options.state_snapshots.
std::int64_t plan_blocks(const accel::Device& device, const std::vector<nn::CacheSpec>& specs, CacheOptions& options,
                         std::int64_t block_size) {
  if (options.like != nullptr) {
    options.max_model_len = options.like->max_model_len();
    return options.like->num_blocks();
  }
  const std::uint64_t all = device.memory().free;
  const auto free = static_cast<double>(all - std::min(all, options.reserved));
  const std::uint64_t budget = options.memory > 0 ? options.memory : static_cast<std::uint64_t>(free * options.share);
  options.state_snapshots = affordable_snapshots(specs, options, block_size, budget);
  std::uint64_t seats = bytes_of_seats(specs, options, block_size);
  if (!options.beside.empty()) seats += bytes_of_seats(options.beside, options, block_size);
  const std::int64_t affordable =
      affordable_blocks(device, specs, options, block_size, budget - std::min(budget, seats));
  const std::int64_t of_one = blocks_of(options.max_model_len, block_size);
  if (affordable >= of_one) return std::min(affordable, of_one * options.max_num_seqs);
  const std::uint64_t needed =
      seats + bytes_per_token(specs, options) * static_cast<std::uint64_t>((of_one + kReserved) * block_size);
  const bool keeps_states = has_states(specs);
  const std::string wish =
      cat(human_bytes(needed), " for one sequence of ", options.max_model_len, " tokens",
          keeps_states ? cat(" and the states of ", options.max_num_seqs, " at once") : std::string());
  if (!options.shorten || affordable == 0) {
    throw Failure(device_error(
        cat("the key-value cache needs ", wish, ", and ",
            options.memory > 0 ? cat("--kv_cache_memory allows ", human_bytes(budget))
                               : cat(human_bytes(budget), " are free for it")),
        cat(options.memory > 0 ? "raise --kv_cache_memory or lower --max_model_len" : "lower --max_model_len",
            keeps_states ? ", or run fewer sequences at once" : "")));
  }
  options.max_model_len = affordable * block_size;
  log_info(
      cat("key-value cache: ", human_bytes(budget), " hold ", options.max_model_len, " tokens, less than the ", wish));
  return affordable;
}

}  // namespace

bool has_states(const std::vector<nn::CacheSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const nn::CacheSpec& spec) { return !spec.states.empty(); });
}

CacheEngine::CacheEngine(std::shared_ptr<graph::TensorStore> store, std::vector<nn::CacheSpec> specs,
                         const CacheOptions& options)
    : store_(std::move(store)), specs_(std::move(specs)), options_(options) {
  const accel::Device& device = *store_->device();
  const std::int64_t block_size = std::max<std::int64_t>(1, device.info().preferred_kv_block);
  pool_ = std::make_unique<BlockPool>(plan_blocks(device, specs_, options_, block_size), block_size);
  scope_ = free_scope(*store_);
  tensors_.emplace(store_, "key-value cache");
  create_tensors();
  tell_bytes(*this, specs_);
}

void CacheEngine::create_tensors() {
  const std::int64_t blocks = num_blocks() + kReserved;
  for (const nn::CacheSpec& spec : specs_) {
    create_states(spec);
    if (spec.kind == nn::CacheKind::state || spec.kind == nn::CacheKind::shared) continue;
    create_blocks(nn::key_cache_name(scope_, spec.module),
                  nn::cache_desc(options_.dtype, blocks, block_size(), spec.kv_heads, spec.key_dim));
    if (spec.kind == nn::CacheKind::latent) continue;
    create_blocks(nn::value_cache_name(scope_, spec.module),
                  nn::cache_desc(options_.dtype, blocks, block_size(), spec.kv_heads, spec.value_dim));
    if (!ops::has_scales(options_.dtype)) continue;
    const TensorDesc scales = nn::scale_desc(blocks, block_size(), spec.kv_heads);
    create_blocks(nn::key_scale_name(scope_, spec.module), scales);
    create_blocks(nn::value_scale_name(scope_, spec.module), scales);
  }
  create_blocks(nn::token_cache_name(scope_), nn::token_cache_desc(capacity()));
  tensors_->create(nn::block_tables_name(scope_), nn::block_tables_desc(capacity()));
  store_->fill_zero(nn::block_tables_name(scope_));  // entries that nobody wrote name a block that there is
}

void CacheEngine::create_states(const nn::CacheSpec& spec) {
  for (const nn::StateSpec& state : spec.states) {
    const std::string name = nn::state_name(scope_, spec.module, state.name), copies = name + ".snapshots";
    tensors_->create(name, nn::state_desc(capacity().num_seats, state.shape));
    if (num_copies(options_) == 0) continue;
    tensors_->create(copies, nn::state_desc(num_copies(options_), state.shape));
    states_.push_back(
        {store_->at(name).planes[0], store_->at(copies).planes[0], total_bytes(nn::state_desc(1, state.shape))});
  }
}

void CacheEngine::copy_states(std::span<const StateCopy> copies) {
  const accel::Stream stream = device().make_stream();
  while (!copies.empty()) {
    const StateCopy& first = copies.front();
    std::size_t run = 1;  // that lie side by side are one
    while (run < copies.size() && follows(first, copies[run], static_cast<std::int32_t>(run))) ++run;
    for (const StatePart& part : states_) {
      tern_plane seat = part.seats, place = part.places;
      seat.offset += static_cast<std::uint64_t>(first.seat) * part.bytes;
      place.offset += static_cast<std::uint64_t>(first.place) * part.bytes;
      device().copy(first.to_seat ? seat : place, first.to_seat ? place : seat, run * part.bytes, stream);
    }
    copies = copies.subspan(run);
  }
  stream.synchronize();
}

void CacheEngine::create_blocks(const std::string& name, const TensorDesc& desc) {
  tensors_->create(name, desc);
  parts_.push_back({store_->at(name).planes[0], total_bytes(desc) / static_cast<std::uint64_t>(desc.shape[0])});
}

std::uint64_t CacheEngine::block_bytes() const {
  return std::accumulate(parts_.begin(), parts_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const BlockPart& part) { return sum + part.bytes; });
}

void CacheEngine::read_block(std::int32_t block, std::span<std::byte> bytes, const accel::Stream& stream) const {
  for (const BlockPart& part : parts_) {
    tern_plane plane = part.plane;
    plane.offset += static_cast<std::uint64_t>(block) * part.bytes;
    device().copy_to_host(bytes.first(part.bytes), plane, stream);
    bytes = bytes.subspan(part.bytes);
  }
}

void CacheEngine::write_block(std::int32_t block, std::span<const std::byte> bytes, const accel::Stream& stream) {
  for (const BlockPart& part : parts_) {
    tern_plane plane = part.plane;
    plane.offset += static_cast<std::uint64_t>(block) * part.bytes;
    device().copy_to_device(plane, bytes.first(part.bytes), stream);
    bytes = bytes.subspan(part.bytes);
  }
}

CacheEngine::~CacheEngine() {
  tensors_.reset();
  store_->allocator()->empty_cache();  // or a large cache would be held for whoever asks for its very size
}

void CacheEngine::seat_blocks(std::int32_t seat, std::span<const std::int32_t> blocks) {
  tern_plane row = store_->at(nn::block_tables_name(scope_)).planes[0];
  row.offset += static_cast<std::uint64_t>(seat * capacity().max_blocks) * sizeof(std::int32_t);
  accel::Device& device = *store_->device();
  const accel::Stream stream = device.make_stream();
  device.copy_to_device(row, std::as_bytes(blocks), stream);
  stream.synchronize();
}

std::uint64_t CacheEngine::bytes() const {
  return bytes_of_seats(specs_, options_, block_size()) +
         bytes_per_token(specs_, options_.dtype) *
             static_cast<std::uint64_t>((num_blocks() + kReserved) * block_size());
}

nn::PagedCapacity CacheEngine::capacity() const {
  nn::PagedCapacity capacity;
  capacity.max_kv_len = options_.max_model_len;
  capacity.max_blocks = blocks_of(options_.max_model_len, block_size());
  capacity.num_blocks = num_blocks() + kReserved;
  capacity.block_size = block_size();
  capacity.num_seats = options_.max_num_seqs + kReserved;
  capacity.dtype = options_.dtype;
  capacity.scope = scope_;
  return capacity;
}

}  // namespace tern::engine
