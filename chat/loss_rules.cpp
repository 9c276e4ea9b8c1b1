#include "chat/loss_rules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "io/json_field.h"
#include "tokenizer/regex.h"

namespace tern::chat {
namespace {

using Json = io::Json;

struct Mark {
  std::string text;
  float own = 1, after = 1;
};

struct Expression {
  std::shared_ptr<const tokenizer::Regex> at_begin;
  float weight = 1;
};

// One set of rules, in its order.
struct Rules {
  std::vector<Mark> marks;
  std::vector<Expression> expressions;
  std::shared_ptr<const tokenizer::Regex> any;  // of the expressions
  std::vector<std::pair<std::string, float>> queries;
};

struct BuiltIn {
  std::string_view name;
  std::string_view json;
};

constexpr std::string_view kReact =
    R"({"Action:": [2, 2], "Action Input:": [2, 2], "Thought:": [1, 1], "Final Answer:": [1, 1], "Observation:": [2, 0]})";
// ms-swift 4.6.0's values.
constexpr BuiltIn kBuiltIn[] = {
    {"ignore_empty_think",
     R"({"^<think>\\s*</think>\\s*": [0], "^<seed:think><seed:cot_budget_reflect>The current thinking budget is 0, so I )"
     R"(will directly start answering the question.</seed:cot_budget_reflect>\\n</seed:think>\\s*": [0], )"
     R"("^</think>\\s*": [0], "^<\\|channel>thought\\n<channel\\|>": [0], "^</mm:think>\\s*": [0]})"},
    {"ignore_think_prefix", R"({"^<think>\\n?": [0]})"},
    {"react", kReact},
    {"hermes", R"({"<tool_call>.+?</tool_call>": [2]})"},
    {"qwen", R"({"✿FUNCTION✿:": [2, 2], "✿ARGS✿:": [2, 2], "✿RETURN✿:": [1, 1], "✿RESULT✿:": [2, 0]})"},
    {"agentflan",
     R"({"response": {"Name:": [1, 3], "Action:": [1, 3], "ACTION:": [1, 3], "Tool:": [1, 3], "Command": [1, 3], )"
     R"("Arguments:": [1, 3], "action input": [1, 3], "ACTION_INPUT:": [1, 3], "Action Input:": [1, 3], )"
     R"("Thought:": [1, 1], "Final Answer:": [1, 1], "Observation:": [2, 0]}, )"
     R"("query": {"What is the tool you want to use": [3], "What are the required parameter names": [3], )"
     R"("What is the value of": [3], "What are the required parameter names for this tool": [3]}})"},
    {"alpha_umi", R"({"Action:": [2, 2], "Action Input:": [2, 2], "Thought:": [1, 1], "Final Answer:": [1, 1], )"
                  R"("Observation:": [2, 0], "Next:": [2, 2]})"},
};

std::shared_ptr<const tokenizer::Regex> compiled(const std::string& pattern, const io::JsonField& place) {
  // As Python's DOTALL: ^ is the text's begin alone.
  try {
    return std::make_shared<tokenizer::Regex>(cat("(?s-m)", pattern), false, "loss_scale");
  } catch (const Failure&) {
    throw place.wrong("a regular expression as Python writes it", "mend the expression, or take the rule out");
  }
}

std::vector<float> weights_of(const io::JsonField& field) {
  std::vector<float> weights;
  const Json& json = field.json();
  const auto add = [&](const Json& number) {
    const double weight = number.is_number() ? number.get<double>() : -1;
    if (!(weight >= 0) || !std::isfinite(weight))
      throw field.wrong("one or two weights of at least 0", "write [2.0, 2.0] or [2.0]");
    weights.push_back(static_cast<float>(weight));
  };
  if (json.is_number()) {
    add(json);
  } else if (json.is_array()) {
    for (const Json& number : json) add(number);
  }
  if (weights.empty() || weights.size() > 2) throw field.wrong("one or two weights", "write [2.0, 2.0] or [2.0]");
  return weights;
}

Rules read_rules(const Json& json, const std::string& where) {
  const io::JsonField root(json, where, "write {\"expression\": [2.0]}");
  Rules rules;
  const auto response = root.find("response");
  const bool has_parts = response && response->json().is_object();
  if (const auto query = root.find("query"); has_parts && query) {
    for (const auto& words : query->object())
      rules.queries.emplace_back(words.key, weights_of(query->member(words)).front());
  }
  const io::JsonField& table = has_parts ? *response : root;
  std::string any;
  for (const auto& member : table.object()) {
    const std::string& key = member.key;
    const io::JsonField field = table.member(member);
    const std::vector<float> weights = weights_of(field);
    if (key.empty()) throw field.wrong("a mark or an expression", "write what the text is cut by");
    if (weights.size() == 2) {
      rules.marks.push_back({key, weights[0], weights[1]});
    } else {
      rules.expressions.push_back({compiled(cat("\\A(?:", key, ")"), field), weights[0]});
      any += cat(any.empty() ? "" : "|", "(?:", key, ")");
    }
  }
  if (!any.empty()) rules.any = compiled(any, table);
  return rules;
}

void add_part(std::vector<WeightedPart>& parts, std::size_t begin, std::size_t end, float weight) {
  if (begin < end) parts.push_back({begin, end, weight});
}

std::vector<WeightedPart> cut_by_marks(const std::vector<Mark>& marks, std::string_view text) {
  std::vector<WeightedPart> parts;
  std::size_t begin = 0;
  float weight = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto mark = std::find_if(marks.begin(), marks.end(),
                                   [&](const Mark& some) { return text.substr(at).starts_with(some.text); });
    if (mark == marks.end()) {
      ++at;
      continue;
    }
    add_part(parts, begin, at, weight);
    add_part(parts, at, at + mark->text.size(), mark->own);
    begin = at += mark->text.size();
    weight = mark->after;
  }
  add_part(parts, begin, text.size(), weight);
  return parts;
}

// A part counts by the first expression that matches where it begins, be it what was matched or what lies between.
std::vector<WeightedPart> cut_by_expressions(const Rules& rules, std::string_view text) {
  std::vector<tokenizer::Range> matches;
  rules.any->find_all(text, matches);
  std::vector<WeightedPart> parts;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    const auto fits = [&](const Expression& expression) {
      std::vector<tokenizer::Range> found;
      expression.at_begin->find_all(text.substr(begin, end - begin), found);
      return !found.empty();
    };
    const auto first = std::find_if(rules.expressions.begin(), rules.expressions.end(), fits);
    parts.push_back({begin, end, first == rules.expressions.end() ? 1.0F : first->weight});
  };
  std::size_t at = 0;
  for (const tokenizer::Range& match : matches) {
    add(at, match.begin);
    add(match.begin, match.end);
    at = match.end;
  }
  add(at, text.size());
  return parts;
}

std::vector<WeightedPart> cut(const Rules& rules, std::string_view query, std::string_view text) {
  for (const auto& [words, weight] : rules.queries) {
    if (query.find(words) != std::string_view::npos) return {{0, text.size(), weight}};
  }
  if (!rules.marks.empty()) return cut_by_marks(rules.marks, text);
  if (rules.any) return cut_by_expressions(rules, text);
  return {{0, text.size(), 1}};
}

}  // namespace

struct LossRules::State {
  std::vector<Rules> chain;
  std::string text;
};

LossRules::LossRules() : state_(std::make_shared<State>()) {}

Result<LossRules> LossRules::parse(std::string_view chain) {
  return catching([&] {
    auto state = std::make_shared<State>();
    for (const std::string_view name : split(chain, '+')) {
      const auto* found = std::find_if(std::begin(kBuiltIn), std::end(kBuiltIn),
                                       [&](const BuiltIn& some) { return some.name == name; });
      Json json;
      if (found != std::end(kBuiltIn)) {
        json = io::parse_json(found->json, std::string(name)).value();
      } else if (name.ends_with(".json")) {
        json = io::read_json_file(std::string(name)).value();
      } else {
        throw Failure(usage_error(cat("--loss_scale \"", name, "\" is unknown"),
                                  "choose default, last_round or all, and behind them with + between: "
                                  "ignore_empty_think, ignore_think_prefix, react, hermes, qwen, agentflan, alpha_umi "
                                  "or a .json file of rules"));
      }
      state->chain.push_back(read_rules(json, std::string(name)));
      state->text += cat("+", json.dump());
    }
    LossRules rules;
    rules.state_ = std::move(state);
    return rules;
  });
}

std::vector<WeightedPart> LossRules::parts(std::string_view query, std::string_view response) const {
  std::vector<WeightedPart> all = {{0, response.size(), 1}};
  for (const Rules& rules : state_->chain) {
    std::vector<WeightedPart> next;
    for (const WeightedPart& part : all) {
      for (const WeightedPart& piece : cut(rules, query, response.substr(part.begin, part.end - part.begin)))
        next.push_back({part.begin + piece.begin, part.begin + piece.end, part.weight * piece.weight});
    }
    all = std::move(next);
  }
  return all;
}

bool LossRules::empty() const { return state_->chain.empty(); }
const std::string& LossRules::text() const { return state_->text; }

}  // namespace tern::chat
