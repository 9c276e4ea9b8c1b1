// The `loop` variable of a for loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/eval.h"

namespace tern::jinja {

class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(const For& node, ScopePtr scope, std::shared_ptr<const Values> items, int depth);
  void set_test(std::function<bool(const Value&)> test) { test_ = std::move(test); }

  // The next item that passes the test, false at the end.
  bool advance(Value& out);
  // The loop is over: what it was bound to is let go.
  void finish();

  [[nodiscard]] std::string type_name() const override { return "LoopContext"; }
  [[nodiscard]] std::string repr() const override;
  [[nodiscard]] bool attribute(Evaluator& evaluator, std::string_view name, Value& out) override;
  [[nodiscard]] bool callable() const override { return true; }
  // loop(items) of a recursive loop: the text of the same body over other items, one level deeper.
  Value call(Evaluator& evaluator, const Arguments& arguments) override;
  [[nodiscard]] std::int64_t length() const override { return const_cast<Loop*>(this)->count(); }

 private:
  bool pull(Value& out);
  const Value* peek();  // the item after this one, null at the end
  std::int64_t count();
  Value changed(const Arguments& arguments);

  const For& node_;
  ScopePtr scope_;
  std::shared_ptr<const Values> items_;
  std::function<bool(const Value&)> test_;
  std::size_t at_ = 0;
  std::int64_t index0_ = -1;
  std::optional<std::int64_t> length_;
  std::optional<Values> ahead_;  // items already tested, when the length was asked for
  std::size_t ahead_at_ = 0;
  std::optional<Value> before_, current_, after_;
  bool ended_ = false;
  std::optional<Value> last_changed_;
  int depth_;
};

}  // namespace tern::jinja
