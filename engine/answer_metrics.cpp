#include "engine/answer_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "base/strings.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::engine {
namespace {

using Words = std::vector<std::string>;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_joiner(char c) { return std::string_view("+#&._%-").find(c) != std::string_view::npos; }

// Letters and digits, then a fraction such as .75, then a percent sign.
std::size_t end_of_word(std::string_view text, std::size_t at) {
  while (at < text.size() && is_letter_or_digit(text[at])) ++at;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    for (++at; at < text.size() && is_digit(text[at]);) ++at;
  }
  return at < text.size() && text[at] == '%' ? at + 1 : at;
}

// Of one word: a line's end, a tab, a blank that doesn't break, an ideographic space. They count in BLEU, as in
// ms-swift.
bool is_white_space(std::string_view word) { return trim(word).empty() || word == "\u00A0" || word == "\u3000"; }

// The package rouge joins words with blanks and ends sentences at each full stop. A sentence of blanks alone has one
// word, which is empty.
std::vector<Words> sentences_of(const Words& words) {
  std::vector<Words> out;
  const std::string text = join(words, " ");
  for (const std::string_view sentence : split(text, '.')) {
    if (sentence.empty()) continue;
    Words own;
    for (const std::string_view word : split(sentence, ' ')) {
      if (!is_white_space(word)) own.emplace_back(word);
    }
    if (own.empty()) own.emplace_back();
    out.push_back(std::move(own));
  }
  return out;
}

std::map<Words, std::int64_t> ngrams(const Words& words, std::size_t n) {
  std::map<Words, std::int64_t> out;
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i);
    ++out[Words(begin, begin + static_cast<std::ptrdiff_t>(n))];
  }
  return out;
}

Words flat(const std::vector<Words>& sentences) {
  Words out;
  for (const Words& sentence : sentences) out.insert(out.end(), sentence.begin(), sentence.end());
  return out;
}

double f_measure(std::size_t common, std::size_t found, std::size_t wanted) {
  if (found == 0 || wanted == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(found);
  const double recall = static_cast<double>(common) / static_cast<double>(wanted);
  return 2 * precision * recall / (precision + recall + 1e-8);
}

// Each n-gram counts once, however often it comes.
double rouge_n(const Words& answer, const Words& label, std::size_t n) {
  const auto mine = ngrams(answer, n);
  const auto wanted = ngrams(label, n);
  std::size_t common = 0;
  for (const auto& [gram, count] : mine) common += wanted.contains(gram) ? 1 : 0;
  return f_measure(common, mine.size(), wanted.size());
}

// Lengths of longest common subsequences of the first i words of x and the first j of y: row i, from 0 on.
class CommonLengths {
 public:
  CommonLengths(const Words& x, const Words& y) : x_(x), y_(y), step_(1) {
    while (step_ * step_ < x.size()) ++step_;
    Row row(y.size() + 1);
    for (std::size_t i = 0; i <= x.size(); ++i) {
      if (i > 0) row = after(row, i);
      if (i % step_ == 0) kept_.push_back(row);
    }
  }
  // Rows are asked for from the last to the first: those between two that are kept are made again.
  [[nodiscard]] std::uint32_t at(std::size_t i, std::size_t j) {
    if (i % step_ == 0) return kept_[i / step_][j];
    if (begin_ != i / step_ * step_) {
      begin_ = i / step_ * step_;
      between_.clear();
      for (std::size_t row = begin_ + 1; row < begin_ + step_ && row <= x_.size(); ++row)
        between_.push_back(after(between_.empty() ? kept_[begin_ / step_] : between_.back(), row));
    }
    return between_[i - begin_ - 1][j];
  }

 private:
  using Row = std::vector<std::uint32_t>;
  [[nodiscard]] Row after(const Row& last, std::size_t i) const {
    Row row(last.size());
    for (std::size_t j = 1; j < row.size(); ++j)
      row[j] = x_[i - 1] == y_[j - 1] ? last[j - 1] + 1 : std::max(last[j], row[j - 1]);
    return row;
  }

  const Words& x_;
  const Words& y_;
  std::size_t step_;       // the square root of the rows: so many are kept, and as many lie between two
  std::vector<Row> kept_;  // row 0, row step and so on
  std::vector<Row> between_;
  std::size_t begin_ = static_cast<std::size_t>(-1);  // the kept row before those
};

// The words of a longest common subsequence; of several, the one that the package rouge finds.
std::set<std::string> common_subsequence(const Words& x, const Words& y) {
  CommonLengths lengths(x, y);
  std::set<std::string> out;
  for (std::size_t i = x.size(), j = y.size(); i > 0 && j > 0;) {
    if (x[i - 1] == y[j - 1]) {
      out.insert(x[i - 1]);
      --i;
      --j;
    } else if (lengths.at(i - 1, j) > lengths.at(i, j - 1)) {
      --i;
    } else {
      --j;
    }
  }
  return out;
}

// The union, over all pairs of sentences, of the words of their longest common subsequences.
double rouge_l(const std::vector<Words>& answer, const std::vector<Words>& label) {
  std::set<std::string> common;
  for (const Words& wanted : label) {
    for (const Words& sentence : answer) common.merge(common_subsequence(wanted, sentence));
  }
  const Words mine = flat(answer);
  const Words wanted = flat(label);
  return f_measure(common.size(), std::set<std::string>(mine.begin(), mine.end()).size(),
                   std::set<std::string>(wanted.begin(), wanted.end()).size());
}

// A precision of 0 counts as 1 / 2^k of one match, k counting those so far (mteval-v13a.pl).
double bleu_4(const Words& answer, const Words& label) {
  double logs = 0;
  double smoothing = 1;
  for (std::size_t n = 1; n <= 4; ++n) {
    const auto wanted = ngrams(label, n);
    std::int64_t common = 0;
    std::int64_t found = 0;
    for (const auto& [gram, count] : ngrams(answer, n)) {
      const auto other = wanted.find(gram);
      found += count;
      if (other != wanted.end()) common += std::min(count, other->second);
    }
    if (common == 0 && n == 1) return 0;
    if (common == 0) smoothing /= 2;
    const double matches = common == 0 ? smoothing : static_cast<double>(common);
    logs += std::log(matches / static_cast<double>(std::max<std::int64_t>(found, 1))) / 4;
  }
  const double ratio = static_cast<double>(label.size()) / static_cast<double>(answer.size());
  return std::exp(logs + std::min(0.0, 1 - ratio));
}

}  // namespace

std::vector<std::string> metric_words(std::string_view text) {
  const std::string valid = tokenizer::to_valid_utf8(text);
  Words out;
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t begin = at;
    if (is_letter_or_digit(valid[at])) {
      at = end_of_word(valid, at);
    } else if (is_joiner(valid[at])) {
      while (at < valid.size() && is_joiner(valid[at])) ++at;
    } else if (valid.compare(at, 2, "\r\n") == 0) {
      at += 2;
    } else {
      (void)tokenizer::next_char(valid, at);
    }
    if (valid[begin] != ' ') out.push_back(valid.substr(begin, at - begin));
  }
  return out;
}

AnswerScores score_answer(std::string_view answer, std::string_view label) {
  const Words mine = metric_words(answer);
  const Words wanted = metric_words(label);
  if (mine.empty() || wanted.empty()) return {};
  const auto my_sentences = sentences_of(mine);
  const auto wanted_sentences = sentences_of(wanted);
  AnswerScores scores;
  scores.bleu_4 = bleu_4(mine, wanted);
  if (my_sentences.empty() || wanted_sentences.empty()) return scores;
  const Words my_words = flat(my_sentences);
  const Words wanted_words = flat(wanted_sentences);
  scores.rouge_1 = rouge_n(my_words, wanted_words, 1);
  scores.rouge_2 = rouge_n(my_words, wanted_words, 2);
  scores.rouge_l = rouge_l(my_sentences, wanted_sentences);
  return scores;
}

}  // namespace tern::engine
