#include "nn/token_inputs.h"

#include "graph/program.h"

namespace tern::nn {

using graph::Padding;

TokenInputs declare_tokens(graph::Graph& graph, const TokenCapacity& capacity) {
  const auto column = [&](const char* name, std::int64_t count, CountSlot slot, Padding padding = Padding::zero) {
    return graph.input(name, with_dynamic(make_desc(TERN_I32, {count}), 0, slot), padding);
  };
  TokenInputs inputs;
  inputs.ids = column("ids", capacity.tokens, kTokens);
  inputs.positions = column("positions", capacity.tokens, kTokens);
  inputs.cu_seqlens = column("cu_seqlens", capacity.sequences + 1, kSequenceBounds, Padding::repeat_last);
  if (capacity.rows > 0) inputs.rows = column("rows", capacity.rows, kRows, Padding::minus_one);
  if (capacity.dropout) {
    inputs.dropout_keys = graph.input("dropout_keys", with_dynamic(make_desc(TERN_I64, {capacity.tokens}), 0, kTokens));
  }
  inputs.max_seqlen = capacity.max_seqlen;
  if (!capacity.paged) return inputs;
  const PagedCapacity& paged = *capacity.paged;
  inputs.slots = column("slots", capacity.tokens, kTokens);  // block 0 is nobody's
  inputs.block_table = graph.input(
      "block_table", with_dynamic(make_desc(TERN_I32, {capacity.sequences, paged.max_blocks}), 0, kSequences));
  inputs.kv_lens = column("kv_lens", capacity.sequences, kSequences);
  inputs.max_kv_len = paged.max_kv_len;
  inputs.num_blocks = paged.num_blocks;
  inputs.block_size = paged.block_size;
  inputs.cache_dtype = paged.dtype;
  inputs.cache_scope = paged.scope;
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
  if (!columns.slots.empty()) {
    run.inputs["slots"] = bytes_of(columns.slots);
    run.inputs["block_table"] = bytes_of(columns.block_table);
    run.inputs["kv_lens"] = bytes_of(columns.kv_lens);
  }
  run.counts[kTokens] = static_cast<std::int64_t>(columns.ids.size());
  run.counts[kSequenceBounds] = static_cast<std::int64_t>(columns.cu_seqlens.size());
  run.counts[kSequences] = static_cast<std::int64_t>(columns.cu_seqlens.size()) - 1;
  run.counts[kRows] = static_cast<std::int64_t>(columns.rows.size());
}

}  // namespace tern::nn
