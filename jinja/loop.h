// The `loop` variable of a for loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/eval.h"

namespace tern::jinja {

class Loop final : public Object {
 public:
  explicit Loop(Values items);
  void set_test(std::function<bool(const Value&)> test) { test_ = std::move(test); }

  // The next item that passes the test, false at the end.
  bool advance(Value& out);
  // The loop is over: what it was bound to is let go.
  void finish();

  [[nodiscard]] std::string type_name() const override { return "LoopContext"; }
  [[nodiscard]] std::string repr() const override;  // throws Problem: nobody prints a loop
  [[nodiscard]] bool attribute(Evaluator& evaluator, std::string_view name, Value& out) override;

 private:
  bool pull(Value& out);
  const Value* peek();  // the item after this one, null at the end
  std::int64_t count();

  const Values items_;
  std::function<bool(const Value&)> test_;
  std::size_t at_ = 0;
  std::int64_t index0_ = -1;
  std::optional<std::int64_t> length_;
  std::optional<Values> ahead_;  // items already tested, when the length was asked for
  std::size_t ahead_at_ = 0;
  std::optional<Value> before_, current_, after_;
  bool ended_ = false;
};

}  // namespace tern::jinja
