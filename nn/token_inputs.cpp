#include "nn/token_inputs.h"

#include "base/strings.h"
#include "graph/program.h"
#include "nn/cache_spec.h"
#include "ops/build.h"
#include "ops/gather_rows.h"
#include "ops/kv_write.h"

namespace tern::nn {
namespace {

using graph::Padding;

// The first two dimensions of a cache of numbers.
Value as_table(graph::Graph& graph, Value cache) {
  const TensorDesc& desc = graph.desc(cache);
  return graph.view(cache, make_desc(desc.dtype, {desc.shape[0], desc.shape[1]}), 0);
}

// Numbers of this run, written into a cache of them.
Value write_numbers(graph::Graph& graph, Value numbers, Value slots, Value cache) {
  const TensorDesc& flat = graph.desc(numbers);
  const Value rows = graph.view(numbers, ops::rows_like(make_desc(flat.dtype, {flat.shape[0], 1, 1}), flat), 0);
  return as_table(graph, ops::kv_write(graph, rows, {}, slots, {cache, {}}).k);
}

Value declare_column(graph::Graph& graph, const char* name, std::int64_t count, CountSlot slot,
                     Padding padding = Padding::zero) {
  return graph.input(name, with_dynamic(make_desc(TERN_I32, {count}), 0, slot), padding);
}

ImageInputs declare_images(graph::Graph& graph, const TokenCapacity& capacity) {
  const ImageCapacity& images = *capacity.images;
  const auto rows = [&](const std::string& name, tern_dtype dtype, std::int64_t width) {
    return graph.input(name, with_dynamic(make_desc(dtype, {capacity.tokens, width}), 0, kTokens));
  };
  ImageInputs inputs;
  inputs.text_ids =
      graph.input("text_ids", with_dynamic(make_desc(TERN_I32, {capacity.tokens}), 0, kTokens), Padding::minus_one);
  inputs.features = rows("features", TERN_F32, images.hidden_size);
  for (std::int64_t layer = 0; layer < images.deepstack; ++layer)
    inputs.deepstack.push_back(rows(deepstack_name(layer), TERN_F32, images.hidden_size));
  if (images.rope_pairs > 0) {
    inputs.rope_cos = rows("rope_cos", TERN_F32, images.rope_pairs);
    inputs.rope_sin = rows("rope_sin", TERN_F32, images.rope_pairs);
  }
  for (const std::int64_t window : images.windows)
    inputs.masks[window] = rows(mask_name(window), TERN_BOOL, capacity.paged->max_kv_len);
  return inputs;
}

}  // namespace

std::string deepstack_name(std::int64_t layer) { return cat("deepstack/", layer); }
std::string mask_name(std::int64_t window) { return cat("mask/", window); }

TensorDesc token_cache_desc(const PagedCapacity& paged) {
  return make_desc(TERN_I32, {paged.num_blocks, paged.block_size, 1, 1});
}

TensorDesc block_tables_desc(const PagedCapacity& paged) {
  return make_desc(TERN_I32, {paged.num_seats, paged.max_blocks, 1, 1});
}

TokenInputs declare_replay(graph::Graph& graph, const TokenCapacity& capacity) {
  TokenInputs inputs;
  inputs.replayed = declare_column(graph, "replayed", capacity.tokens, kTokens);
  inputs.cu_seqlens =
      declare_column(graph, "cu_seqlens", capacity.sequences + 1, kSequenceBounds, Padding::repeat_last);
  inputs.kv_lens = declare_column(graph, "kv_lens", capacity.sequences, kSequences);
  inputs.seats = declare_column(graph, "seats", capacity.sequences, kSequences);
  inputs.max_seqlen = capacity.max_seqlen;
  inputs.replay_rows = capacity.replay_rows;
  inputs.num_seats = capacity.paged->num_seats;
  inputs.cache_scope = capacity.paged->scope;
  return inputs;
}

TokenInputs declare_tokens(graph::Graph& graph, const TokenCapacity& capacity) {
  const auto column = [&](const char* name, std::int64_t count, CountSlot slot, Padding padding = Padding::zero) {
    return declare_column(graph, name, count, slot, padding);
  };
  TokenInputs inputs;
  inputs.ids = column("ids", capacity.tokens, kTokens);
  inputs.positions = column("positions", capacity.tokens, kTokens);
  inputs.cu_seqlens = column("cu_seqlens", capacity.sequences + 1, kSequenceBounds, Padding::repeat_last);
  if (capacity.rows > 0) inputs.rows = column("rows", capacity.rows, kRows, Padding::minus_one);
  if (capacity.dropout) {
    inputs.dropout_keys = graph.input("dropout_keys", with_dynamic(make_desc(TERN_I64, {capacity.tokens}), 0, kTokens));
  }
  if (capacity.adapter_slots) inputs.adapter_slots = column("adapter_slots", capacity.tokens, kTokens);
  if (capacity.token_types) inputs.token_types = column("token_types", capacity.tokens, kTokens);
  inputs.max_seqlen = capacity.max_seqlen;
  inputs.replay_rows = capacity.replay_rows;
  if (!capacity.paged) return inputs;
  const PagedCapacity& paged = *capacity.paged;
  inputs.slots = column("slots", capacity.tokens, kTokens);  // block 0 is nobody's
  inputs.kv_lens = column("kv_lens", capacity.sequences, kSequences);
  const std::int64_t entries = paged.new_blocks(capacity.tokens, capacity.sequences);
  const Value table_slots = column("table_slots", entries, kTableEntries);  // seat 0 is nobody's
  const Value table_values = column("table_values", entries, kTableEntries);
  inputs.seats = column("seats", capacity.sequences, kSequences);
  const Value tables = graph.resource(block_tables_name(paged.scope), block_tables_desc(paged));
  inputs.block_tables = write_numbers(graph, table_values, table_slots, tables);
  inputs.block_table = ops::gather_rows(graph, inputs.block_tables, inputs.seats);
  const Value cache = graph.resource(token_cache_name(paged.scope), token_cache_desc(paged));
  inputs.token_cache = write_numbers(graph, inputs.ids, inputs.slots, cache);
  inputs.max_kv_len = paged.max_kv_len;
  inputs.num_blocks = paged.num_blocks;
  inputs.block_size = paged.block_size;
  inputs.num_seats = paged.num_seats;
  inputs.cache_dtype = paged.dtype;
  inputs.cache_scope = paged.scope;
  if (capacity.images) inputs.images = declare_images(graph, capacity);
  return inputs;
}

Value declare_row_input(graph::Graph& graph, const std::string& name, tern_dtype dtype, std::int64_t rows,
                        std::int64_t width, Padding padding) {
  const TensorDesc desc = width > 0 ? make_desc(dtype, {rows, width}) : make_desc(dtype, {rows});
  return graph.input(name, with_dynamic(desc, 0, kRows), padding);
}

void give_tokens(graph::RunInputs& run, const TokenColumns& columns) {
  run.inputs["ids"] = bytes_of(columns.ids);
  run.inputs["positions"] = bytes_of(columns.positions);
  run.inputs["cu_seqlens"] = bytes_of(columns.cu_seqlens);
  run.inputs["rows"] = bytes_of(columns.rows);
  if (!columns.dropout_keys.empty()) run.inputs["dropout_keys"] = bytes_of(columns.dropout_keys);
  if (!columns.token_types.empty()) run.inputs["token_types"] = bytes_of(columns.token_types);
  if (!columns.slots.empty()) {
    run.inputs["slots"] = bytes_of(columns.slots);
    run.inputs["kv_lens"] = bytes_of(columns.kv_lens);
    run.inputs["seats"] = bytes_of(columns.seats);
    run.inputs["table_slots"] = bytes_of(columns.table_slots);
    run.inputs["table_values"] = bytes_of(columns.table_values);
  }
  run.counts[kTokens] = static_cast<std::int64_t>(columns.ids.size());
  run.counts[kSequenceBounds] = static_cast<std::int64_t>(columns.cu_seqlens.size());
  run.counts[kSequences] = static_cast<std::int64_t>(columns.cu_seqlens.size()) - 1;
  run.counts[kRows] = static_cast<std::int64_t>(columns.rows.size());
  run.counts[kTableEntries] = static_cast<std::int64_t>(columns.table_slots.size());
}

}  // namespace tern::nn
