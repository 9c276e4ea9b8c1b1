#include "tests/support/exposition.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace tern::test {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters, digits and underscores, and colons where a metric is named.
std::string_view name_at(std::string_view text, bool colons) {
  std::size_t end = 0;
  while (end < text.size() &&
         (is_letter(text[end]) || (colons && text[end] == ':') || (end > 0 && is_digit(text[end])))) {
    ++end;
  }
  return text.substr(0, end);
}

std::optional<double> number(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "+Inf") return kInfinity;
  if (text == "-Inf") return -kInfinity;
  if (text == "NaN" || text == "Nan") return std::nan("");
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  const std::string whole(text);
  char* end = nullptr;
  const double value = std::strtod(whole.c_str(), &end);
  if (end != whole.c_str() + whole.size()) return std::nullopt;
  return value;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t more = first < 0x80                    ? 0
                             : first >= 0xC2 && first < 0xE0 ? 1
                             : first >= 0xE0 && first < 0xF0 ? 2
                                                             : 3;
    if (first >= 0xF5 || (first >= 0x80 && first < 0xC2) || i + more >= text.size()) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0U) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

class Reader {
 public:
  Exposition read(std::string_view page) {
    if (!page.empty() && page.back() != '\n') fail("the page doesn't end in a line end");
    if (!is_utf8(page)) fail("the page isn't UTF-8");
    while (!page.empty()) {
      const std::size_t end = std::min(page.find('\n'), page.size());
      line_ = page.substr(0, end);
      read_line();
      page.remove_prefix(std::min(page.size(), end + 1));
    }
    line_ = {};
    end_family();
    return std::move(out_);
  }

 private:
  void fail(const std::string& what) { out_.errors.push_back(what + ": " + std::string(line_)); }

  void read_line() {
    if (line_.empty()) return fail("an empty line");
    if (line_.find('\r') != std::string_view::npos) return fail("a carriage return");
    if (line_.starts_with("# HELP ")) return read_help(line_.substr(7));
    if (line_.starts_with("# TYPE ")) return read_type(line_.substr(7));
    if (line_.front() == '#') return fail("a comment that is neither HELP nor TYPE");
    read_sample();
  }

  void read_help(std::string_view rest) {
    end_family();
    name_ = name_at(rest, true);
    if (name_.empty()) return fail("a family without a name");
    if (out_.families.contains(name_)) fail("a family that was there before");
    family_ = &out_.families[name_];
    const std::string_view text = rest.substr(name_.size());
    if (text.size() < 2 || text.front() != ' ') return fail("a HELP without a text");
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') continue;
      if (i + 1 == text.size() || (text[i + 1] != '\\' && text[i + 1] != 'n'))
        return fail("an escape that HELP hasn't");
      ++i;
    }
    family_->help = text.substr(1);
  }

  void read_type(std::string_view rest) {
    const std::string name(name_at(rest, true));
    if (family_ == nullptr || name != name_) return fail("a TYPE without the HELP of its family before it");
    if (!family_->type.empty()) return fail("a second TYPE");
    if (!family_->samples.empty()) fail("a TYPE behind samples");
    family_->type = rest.substr(std::min(rest.size(), name.size() + 1));
    if (family_->type != "counter" && family_->type != "gauge" && family_->type != "histogram") fail("an unknown type");
    if ((family_->type == "counter") != name.ends_with("_total"))
      fail("_total is the end of counters' names, and no other's");
    if (ends_with_any(name, {"_bucket", "_count", "_sum"})) fail("a name with an end that has a meaning");
    for (const char c : name) {
      if (c >= 'A' && c <= 'Z') return fail("a capital letter in a name");
    }
  }

  void read_sample() {
    Sample sample;
    sample.name = name_at(line_, true);
    if (sample.name.empty()) return fail("a sample without a name");
    if (family_ == nullptr || family_->type.empty()) return fail("a sample without HELP and TYPE before it");
    if (!belongs(sample.name)) return fail("a sample of another family than " + name_);
    std::string_view rest = line_.substr(sample.name.size());
    if (rest.starts_with("{") && !read_labels(rest, sample)) return;
    if (!rest.starts_with(" ")) return fail("no space before the value");
    const auto value = number(rest.substr(1));
    if (!value) return fail("a value that is no number");
    sample.value = *value;
    const bool counts = family_->type == "counter" || (family_->type == "histogram" && !sample.name.ends_with("_sum"));
    if (counts && (!std::isfinite(*value) || *value < 0)) fail("a count that isn't finite and positive");
    if (!series_.emplace(sample.name, sample.labels).second) fail("a series that was there before");
    family_->samples.push_back(std::move(sample));
  }

  [[nodiscard]] bool belongs(const std::string& name) const {
    if (family_->type != "histogram") return name == name_;
    return name == name_ + "_bucket" || name == name_ + "_sum" || name == name_ + "_count";
  }

  // `rest` begins with "{" and loses all up to and with "}".
  bool read_labels(std::string_view& rest, Sample& sample) {
    const auto broken = [&](const char* what) {
      fail(what);
      return false;
    };
    rest.remove_prefix(1);
    while (!rest.starts_with("}")) {
      const std::string name(name_at(rest, false));
      rest.remove_prefix(name.size());
      if (name.empty() || name.starts_with("__")) return broken("a label's name");
      if (!rest.starts_with("=\"")) return broken("a label without =\"");
      rest.remove_prefix(2);
      std::string value;
      while (!rest.empty() && rest.front() != '"') {
        if (rest.front() == '\\') {
          rest.remove_prefix(1);
          if (rest.empty() || std::string_view("\\\"n").find(rest.front()) == std::string_view::npos) {
            return broken("an escape that label values haven't");
          }
          value += rest.front() == 'n' ? '\n' : rest.front();
        } else {
          value += rest.front();
        }
        rest.remove_prefix(1);
      }
      if (rest.empty()) return broken("a label that doesn't end");
      rest.remove_prefix(1);
      if (!sample.labels.emplace(name, value).second) return broken("a label that was there before");
      if (rest.starts_with(",")) {
        rest.remove_prefix(1);
      } else if (!rest.starts_with("}")) {
        return broken("labels without a comma between them");
      }
    }
    rest.remove_prefix(1);
    return true;
  }

  void end_family() {
    if (family_ != nullptr) {
      if (family_->type.empty()) fail("the family " + name_ + " has no TYPE");
      if (family_->samples.empty()) fail("the family " + name_ + " has no sample");
      if (family_->type == "histogram") check_histogram();
    }
    family_ = nullptr;
  }

  void check_histogram() {
    struct One {
      std::vector<std::pair<double, double>> buckets;  // bound and count, as they come
      std::optional<double> sum, count;
    };
    std::map<std::map<std::string, std::string>, One> all;  // by the labels but "le"
    for (const Sample& sample : family_->samples) {
      auto labels = sample.labels;
      const auto bound = labels.extract("le");
      One& one = all[labels];
      const bool bucket = sample.name.ends_with("_bucket");
      if (bucket == bound.empty()) fail("le is the label of buckets, and of all of them: " + sample.name);
      if (bucket && !bound.empty()) {
        const auto value = number(bound.mapped());
        if (!value) fail("a bound that is no number: " + bound.mapped());
        one.buckets.emplace_back(value.value_or(0), sample.value);
      }
      if (sample.name.ends_with("_sum")) one.sum = sample.value;
      if (sample.name.ends_with("_count")) one.count = sample.value;
    }
    for (const auto& [labels, one] : all) {
      if (!one.sum || !one.count) fail(name_ + " has no sum or no count");
      if (one.buckets.empty() || !std::isinf(one.buckets.back().first)) {
        fail(name_ + " doesn't end with the bucket of +Inf");
      } else if (one.buckets.back().second != one.count) {
        fail(name_ + " counts another number than its buckets");
      }
      for (std::size_t i = 1; i < one.buckets.size(); ++i) {
        if (one.buckets[i].first <= one.buckets[i - 1].first) fail(name_ + " has bounds that don't rise");
        if (one.buckets[i].second < one.buckets[i - 1].second) fail(name_ + " has buckets that fall");
      }
    }
  }

  Exposition out_;
  std::string_view line_;
  std::string name_;
  MetricFamily* family_ = nullptr;
  std::set<std::pair<std::string, std::map<std::string, std::string>>> series_;
};

}  // namespace

Exposition read_exposition(std::string_view page) { return Reader().read(page); }

std::vector<std::string> counters_that_fell(const Exposition& before, const Exposition& after) {
  using Series = std::map<std::pair<std::string, std::map<std::string, std::string>>, double>;
  const auto counters = [](const Exposition& page) {
    Series out;
    for (const auto& [name, family] : page.families) {
      if (family.type == "gauge") continue;
      for (const Sample& sample : family.samples) out[{sample.name, sample.labels}] = sample.value;
    }
    return out;
  };
  const Series now = counters(after);
  std::vector<std::string> out;
  for (const auto& [series, value] : counters(before)) {
    const auto found = now.find(series);
    if (found == now.end() || found->second < value) out.push_back(series.first);
  }
  return out;
}

}  // namespace tern::test
