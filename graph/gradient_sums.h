// The gradients that a walk back through a graph holds: one for each storage, put together from what its views are
// given.
#pragma once

#include <set>
#include <vector>

#include "graph/graph.h"
#include "graph/region.h"

namespace tern::graph {

// A gradient lies as the storage does that it is of, so that a view's is the same view of it. It is only as complete as
// what it was given: what covers nothing yet is written there, what covers something is added, and zeros fill in the
// rest where somebody looks. A gradient of a whole is taken as it is, without a copy.
class GradientSums {
 public:
  explicit GradientSums(Graph& graph) : graph_(graph), sums_(graph.storages().size()) {}

  // Everything for the storage of `value` is added to `into`, which lies as it does.
  void begin_at(Value value, Value into);
  // Whether the gradient is being added to what was given to begin_at.
  [[nodiscard]] bool is_at(Value value, Value into) const;

  // Whether anything was added for the storage of `value`.
  [[nodiscard]] bool is_given(Value value) const { return sums_[static_cast<std::size_t>(memory_of(value))].is_given; }

  // The gradient of what `value` names, in its shape: absent where nothing was given for it, kUnitGradient for a loss
  // that is used nowhere else.
  Value of(Value value);
  // Where a rule may add to the gradient of `value`: absent where there is nothing yet, or others hold it too.
  Value into(Value value);

  // `is_sole`: a rule has just made the gradient and gives it to this value alone.
  void add(Value value, Value gradient, bool is_sole);
  // A rule has added to what `into` gave, or made a gradient that contains it.
  void absorb(Value value, Value gradient, bool is_sole);
  // A constant 1, for a loss of one number.
  void add_one(Value value);

  // Before this, `value` named nothing of what it names now: its storage begins with it, or it was placed there.
  void begins_here(Value value, bool is_placed);
  // Nothing is added any more to the memory of a gradient that was given away.
  void keep(Value gradient) { kept_.insert(graph_.info(gradient).storage); }

 private:
  struct Sum {
    Value whole;                  // in the storage's layout
    std::vector<Region> written;  // of it; they share nothing
    int ones = 0;                 // not in `whole` yet
    Value into;                   // what begin_at gave
    bool is_given = false;        // anything at all
  };

  [[nodiscard]] std::int32_t memory_of(Value value) const { return graph_.info(value).storage; }
  Sum& sum_of(Value value) { return sums_[static_cast<std::size_t>(memory_of(value))]; }
  [[nodiscard]] const Storage& storage_of(Value value) const { return graph_.storage_of(value); }
  [[nodiscard]] Region region(Value value) const;
  [[nodiscard]] bool is_exclusive(const Sum& sum) const;
  Value part(Sum& sum, const TensorDesc& desc, std::int64_t offset);
  Value part(Sum& sum, const Region& region, const Storage& storage);
  [[nodiscard]] static bool is_complete(const Sum& sum, const Storage& storage);
  std::vector<Region> missing(Sum& sum, const Region& region, const Storage& storage);
  void mark_written(Sum& sum, const Region& region, const Storage& storage);
  void fill_with_zeros(Sum& sum, const std::vector<Region>& parts, const Storage& storage);
  void move_out(Sum& sum, const Storage& storage, bool with_zeros);
  bool take_whole(Sum& sum, Value gradient, const TensorDesc& desc, const Region& at, const Storage& storage);
  void spend_ones(Sum& sum, Value value);

  Graph& graph_;
  std::vector<Sum> sums_;  // per storage of the forward
  std::set<std::int32_t> kept_;
};

}  // namespace tern::graph
