#include "engine/head_inputs.h"

#include "engine/step_inputs.h"

namespace tern::engine {
namespace {

// Of the sequence with its guesses behind it.
std::int32_t token_at(const Sequence& sequence, std::int64_t at) {
  return at < sequence.length() ? sequence.tokens[static_cast<std::size_t>(at)]
                                : sequence.drafts[static_cast<std::size_t>(at - sequence.length())];
}

// Where an input is written; what no node of the program reads isn't one.
template <typename T>
class Column {
 public:
  Column(graph::Program& program, const char* name) {
    const std::int32_t id = program.input_id(name);
    if (id >= 0) data_ = reinterpret_cast<T*>(program.input(id).data());
  }
  [[nodiscard]] bool present() const { return data_ != nullptr; }
  template <typename Number>
  void put(std::int64_t at, Number value) const {
    if (data_ != nullptr) data_[at] = static_cast<T>(value);
  }

 private:
  T* data_ = nullptr;
};

class HeadInputs {
 public:
  HeadInputs(graph::Program& program, const nn::PagedCapacity& cache)
      : cache_(cache),
        ids_(program, "ids"),
        next_ids_(program, kNextIds),
        state_rows_(program, kStateRows),
        positions_(program, "positions"),
        cu_seqlens_(program, "cu_seqlens"),
        slots_(program, "slots"),
        kv_lens_(program, "kv_lens"),
        seats_(program, "seats"),
        table_slots_(program, "table_slots"),
        table_values_(program, "table_values"),
        rows_(program, "rows"),
        top_k_(program, "top_k"),
        temperature_(program, "temperature"),
        top_p_(program, "top_p"),
        min_p_(program, "min_p"),
        uniform_(program, "uniform") {
    cu_seqlens_.put(0, 0);
  }

  void add(const HeadPart& part) {
    add_pairs(part);
    add_table_entries(part);
    if (part.draws && rows_.present()) add_row(part);
    ++counts_[nn::kSequences];
  }

  [[nodiscard]] graph::Counts counts() const {
    graph::Counts counts = counts_;
    counts[nn::kSequenceBounds] = counts[nn::kSequences] + 1;
    return counts;
  }

 private:
  void add_pairs(const HeadPart& part) {
    const Sequence& sequence = *part.sequence;
    std::int64_t& at = counts_[nn::kTokens];
    for (std::int64_t i = part.begin; i < part.begin + part.count; ++i, ++at) {
      const std::int64_t block = sequence.blocks[static_cast<std::size_t>(i / cache_.block_size)];
      ids_.put(at, token_at(sequence, i));
      next_ids_.put(at, token_at(sequence, i + 1));
      state_rows_.put(at, part.state + i - part.begin);
      positions_.put(at, i);
      slots_.put(at, block * cache_.block_size + i % cache_.block_size);
    }
    const std::int64_t sequences = counts_[nn::kSequences];
    cu_seqlens_.put(sequences + 1, at);
    kv_lens_.put(sequences, part.begin + part.count);
    seats_.put(sequences, sequence.seat);
  }

  // Pairs of guesses may reach blocks first; of others the model's step has written the same.
  void add_table_entries(const HeadPart& part) {
    const Sequence& sequence = *part.sequence;
    std::int64_t& at = counts_[nn::kTableEntries];
    for (std::int64_t b = (part.begin + cache_.block_size - 1) / cache_.block_size;
         b * cache_.block_size < part.begin + part.count; ++b, ++at) {
      table_slots_.put(at, sequence.seat * cache_.max_blocks + b);
      table_values_.put(at, sequence.blocks[static_cast<std::size_t>(b)]);
    }
  }

  void add_row(const HeadPart& part) {
    const SamplingParams& params = part.sequence->params;
    const std::int64_t row = counts_[nn::kRows]++;
    rows_.put(row, counts_[nn::kTokens] - 1);
    temperature_.put(row, params.temperature);
    top_k_.put(row, params.top_k);
    top_p_.put(row, params.top_p);
    min_p_.put(row, params.min_p);
    uniform_.put(row, uniform_of(params, part.begin + part.count + 1));
  }

  const nn::PagedCapacity& cache_;
  Column<std::int32_t> ids_, next_ids_, state_rows_, positions_, cu_seqlens_, slots_, kv_lens_, seats_, table_slots_,
      table_values_, rows_, top_k_;
  Column<float> temperature_, top_p_, min_p_, uniform_;
  graph::Counts counts_{};
};

}  // namespace

graph::Counts fill_head_inputs(graph::Program& program, const nn::PagedCapacity& cache,
                               std::span<const HeadPart> parts) {
  HeadInputs inputs(program, cache);
  for (const HeadPart& part : parts) inputs.add(part);
  return inputs.counts();
}

}  // namespace tern::engine
