// Answers requests of every protocol over one engine: which model, its prompt, how it is drawn, what it says.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chat/answer_parser.h"
#include "engine/async_llm_engine.h"
#include "engine/grammar.h"
#include "server/chat_request.h"
#include "server/chat_sink.h"
#include "server/image_fetcher.h"
#include "server/metrics.h"
#include "server/pooling_queue.h"
#include "server/slots.h"

namespace tern::server {

struct ServiceOptions {
  std::vector<std::string> model_names;     // under which the model is asked for; the first is told in answers
  engine::SamplingParams sampling;          // where a request says nothing
  chat::AnswerFormats formats;              // how the model writes thoughts and calls
  std::string system;                       // where a dialogue has no system message; "": none
  std::optional<std::uint64_t> seed;        // of requests that have none, the first the first; none: another each time
  std::int64_t max_queue_len = 1024;        // requests that wait; more are told to come again
  std::chrono::seconds sleep_on_idle{0};    // as of AsyncLLMEngine
  bool loads_adapters = false;              // clients may load and unload them
  std::filesystem::path lora_resolver_dir;  // a request that names a folder of it has that adapter loaded; "": none
  MediaOptions media;                       // what is read for clients that say where their images are
};

// What a request that is on its way can be asked.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  RequestHandle() = default;
  RequestHandle(const RequestHandle&) = delete;
  RequestHandle& operator=(const RequestHandle&) = delete;
  // Ends it before the next step: nobody waits for the answer. Any thread.
  virtual void abort() = 0;
};

// Why a request is not answered, and HTTP's status for it.
struct Refusal {
  Error error;
  int status = 400;
};

class ChatService {
 public:
  // `llm` outlives the service, and nobody else uses it meanwhile. Throws what AsyncLLMEngine throws.
  ChatService(engine::LLM& llm, ServiceOptions options);
  ~ChatService();
  ChatService(const ChatService&) = delete;
  ChatService& operator=(const ChatService&) = delete;

  // Answers a request; renders and encodes its prompt on the caller's thread. Errors come through the sink.
  std::shared_ptr<RequestHandle> chat(ChatRequest request, std::shared_ptr<AnswerSink> sink);
  std::shared_ptr<RequestHandle> complete(CompletionRequest request, std::shared_ptr<AnswerSink> sink);

  // The ids that a request's prompt has, which is text alone. Errors (data) as of LLM::encode.
  [[nodiscard]] Result<engine::TokenIds> prompt_ids(const ChatRequest& request) const;
  [[nodiscard]] Result<engine::TokenIds> prompt_ids(const engine::Prompt& prompt) const;
  // The same of any prompt, told to `done` once: before it returns, or on another thread when the images have come.
  // The request's time limit is told there too. Gives what can be cancelled meanwhile.
  struct FoundIds {
    engine::TokenIds ids;
    std::optional<Refusal> refusal;  // why there are none
  };
  using TellIds = std::function<void(FoundIds&& found)>;
  std::weak_ptr<ImageFetch> find_prompt_ids(const ChatRequest& request, TellIds done);

  // The error as a client is told it: the model's name in the place of its path on this machine.
  [[nodiscard]] Error told(Error error) const;
  // Runs `work` between two steps and waits for it. Throws what it throws, an error as a client is told it.
  void run(const std::function<void(engine::LLM& llm)>& work);

  // Answers a request about whole texts, of the model itself, together with others that wait. Its errors are those of
  // the protocol that `path` is of.
  using MakePooling = std::function<engine::PoolingJob(const engine::LLM& llm)>;
  using PooledBody = std::function<std::string(std::vector<engine::PooledText>&& texts)>;
  void pool(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange, MakePooling make,
            PooledBody body);

  // Of the model itself; adapters have names of their own.
  [[nodiscard]] const std::vector<std::string>& model_names() const { return options_.model_names; }
  // These and the adapters', now.
  [[nodiscard]] std::vector<std::string> all_names() const;
  // Nothing where `model` is served, or "". Puts the adapter of that name into `adapter`: null where it's the model's.
  [[nodiscard]] std::optional<Refusal> unknown_model(const std::string& model, engine::AdapterRef& adapter) const;
  [[nodiscard]] std::optional<Refusal> unknown_model(const std::string& model) const;
  // The same for what is computed by the model alone.
  [[nodiscard]] std::optional<Refusal> not_the_model(const std::string& model) const;
  // Loads an adapter under a name that no model has. Errors (data, usage): as of LLM::load_adapter.
  [[nodiscard]] Result<engine::AdapterRef> load_adapter(const engine::NamedAdapter& adapter, bool replace);
  [[nodiscard]] engine::AdapterRegistry& adapters() { return llm_.adapters(); }
  [[nodiscard]] std::int64_t max_loras() const { return llm_.adapter_room().max_loras; }
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const { return llm_.session().text->tokenizer; }
  [[nodiscard]] std::int64_t max_model_len() const { return max_model_len_; }
  [[nodiscard]] const session::Session& session() const { return llm_.session(); }
  [[nodiscard]] bool generates() const { return llm_.generates(); }
  [[nodiscard]] bool takes_images() const { return llm_.takes_images(); }
  [[nodiscard]] const ServiceOptions& options() const { return options_; }
  [[nodiscard]] engine::EngineStats stats() const;  // with requests about whole texts
  [[nodiscard]] std::optional<Error> dead() const { return engine_.dead(); }
  [[nodiscard]] bool sleep() { return engine_.sleep(); }
  [[nodiscard]] std::string metrics_page() const { return metrics_.page(stats(), max_loras()); }
  [[nodiscard]] Metrics& metrics() { return metrics_; }
  [[nodiscard]] Slots& slots() { return slots_; }
  void pause(engine::PauseMode mode) { engine_.pause(mode); }
  void resume() { engine_.resume(); }
  [[nodiscard]] bool paused() const { return engine_.paused(); }
  // Refuses what comes from now on: the server is about to end.
  void close();

 private:
  friend class RunningRequest;
  struct Asked;
  std::shared_ptr<RequestHandle> begin(Asked&& asked, std::shared_ptr<AnswerSink> sink);
  std::shared_ptr<RequestHandle> begin_with_images(Asked&& asked, std::shared_ptr<AnswerSink> sink);
  [[nodiscard]] std::optional<Error> full_queue() const;  // why no more may wait
  [[nodiscard]] FoundIds ids_of(engine::Dialogue&& dialogue) const;
  [[nodiscard]] Result<bool> has_far_images(engine::Dialogue& dialogue) const;
  [[nodiscard]] std::optional<Refusal> refused(Asked& asked) const;
  [[nodiscard]] bool is_the_model(const std::string& model) const;
  [[nodiscard]] Result<engine::SamplingParams> sampling_of(const SamplingWishes& wishes) const;
  [[nodiscard]] std::uint64_t any_seed();
  void constrain(Asked& asked, const std::string& prompt_tail);
  void ban(Asked& asked) const;

  engine::LLM& llm_;
  ServiceOptions options_;
  std::int64_t max_model_len_;
  bool knows_developer_;  // the template has words for that role
  Metrics metrics_;
  Slots slots_;
  std::vector<std::int32_t> end_token_ids_;
  std::int64_t vocab_size_;
  engine::Grammars grammars_;
  std::mutex seeds_mutex_;
  std::uint64_t seeds_;
  std::atomic<bool> closed_{false};
  engine::AsyncLLMEngine engine_;  // its callbacks use what is above
  PoolingQueue pooling_;           // it uses the engine,
  ImageFetcher images_;            // and so does what this fetched
};

}  // namespace tern::server
