// Answers to prompts that come one by one: what LLM::chat and LLM::generate are made of, for whoever reads prompts from
// somewhere.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>

#include "engine/beam_requests.h"
#include "engine/llm.h"

namespace tern::engine {

class AnswerStream {
 public:
  // `llm` outlives the stream and serves one stream at a time.
  AnswerStream(LLM& llm, SamplingParams sampling, AnswerCallbacks callbacks);
  // Ends what is on its way; nobody is told.
  ~AnswerStream();
  AnswerStream(const AnswerStream&) = delete;
  AnswerStream& operator=(const AnswerStream&) = delete;

  // Takes the next prompt, and computes while every seat is taken. False, and nothing taken, once `stopped` said so.
  // What is wrong with the prompt is its answer's error. Throws Failure (device) where memory does not suffice.
  bool push(const Prompt& prompt);
  // Computes until every prompt has its answer.
  void finish();

 private:
  struct Pending {
    SequenceId id = 0;
    Answer answer;
    std::unique_ptr<BeamRequests> beams;  // of a beam search
    bool finished = false;
  };
  // Whose answer a request of the engine belongs to.
  struct Place {
    std::size_t index = 0;
    std::size_t beam = 0;
  };
  void submit(const Prompt& prompt, Pending& pending);
  void ask_beams(std::size_t index);
  void take_beam(const Place& place, const RequestOutput& output);
  void end(Pending& pending, FinishReason reason, std::optional<Error> error);
  void step();
  void abort_all();
  void tell_finished();
  [[nodiscard]] Pending& at(std::size_t index) { return pending_[index - first_]; }

  LLM& llm_;
  SamplingParams sampling_;
  AnswerCallbacks callbacks_;
  std::deque<Pending> pending_;               // in the prompts' order, those whose answer was not told yet
  std::size_t first_ = 0;                     // index of the first of them
  std::map<SequenceId, Place> on_their_way_;  // by the engine's id
  bool stopped_ = false;
};

}  // namespace tern::engine
