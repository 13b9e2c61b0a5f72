#include "tests/bench/memory_traces.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <sys/wait.h>
#include <torch/optim/adam.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>

#include "troupe/apps/cartpole/local.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::bench {

namespace {

/// Libtorch's default allocator, and what it is asked for.
class recorder final : public c10::Allocator {
public:
  // Blocks may be freed after `main`: there is one, for good.
  static recorder& instance() {
    static auto* const one = new recorder;
    return *one;
  }

  c10::DataPtr allocate(std::size_t n) override {
    void* const data = c10::GetDefaultCPUAllocator()->raw_allocate(n);
    if (data) {
      const std::lock_guard lock(mutex_);
      taken_[data] = blocks_;
      trace_.push_back({blocks_++, n});
    }
    return {data, data, &recorder::release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &recorder::release; }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    default_copy_data(to, from, n);
  }

  memory_trace trace() const {
    const std::lock_guard lock(mutex_);
    return trace_;
  }

private:
  static void release(void* data) {
    auto& self = instance();
    if (data) {
      const std::lock_guard lock(self.mutex_);
      self.trace_.push_back({self.taken_.extract(data).mapped(), 0});
    }
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::uint32_t> taken_;
  std::uint32_t blocks_ = 0;
  memory_trace trace_;
};

class transformer {
public:
  static constexpr std::int64_t tokens = 2'000, longest = 512, width = 256, heads = 4, layers = 4;

  explicit transformer(at::Generator generator) : generator_(std::move(generator)) {
    embedding_ = weight(tokens, width);
    positions_ = weight(longest, width);
    for (auto& one : layers_) {
      one.attention = weight(3 * width, width);
      one.projection = weight(width, width);
      one.up = weight(4 * width, width);
      one.down = weight(width, 4 * width);
      for (auto* const norm : {&one.before_attention, &one.before_feed_forward})
        *norm = parameter(at::ones({width}));
    }
    last_norm_ = parameter(at::ones({width}));
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

  /// Of the next token, over [batch, length] tokens.
  at::Tensor loss(const at::Tensor& text) const {
    const auto length = text.size(1) - 1;
    auto x = at::embedding(embedding_, text.narrow(1, 0, length)) + positions_.narrow(0, 0, length);
    for (const auto& one : layers_) {
      x = x + attended(one, at::layer_norm(x, {width}, one.before_attention));
      const auto seen = at::layer_norm(x, {width}, one.before_feed_forward);
      x = x + at::linear(at::gelu(at::linear(seen, one.up)), one.down);
    }
    const auto logits = at::linear(at::layer_norm(x, {width}, last_norm_), embedding_);
    return at::cross_entropy_loss(logits.flatten(0, 1), text.narrow(1, 1, length).flatten());
  }

private:
  struct layer {
    at::Tensor before_attention, attention, projection, before_feed_forward, up, down;
  };

  at::Tensor parameter(const at::Tensor& t) {
    parameters_.push_back(t.requires_grad_());
    return t;
  }
  at::Tensor weight(std::int64_t rows, std::int64_t columns) {
    return parameter(at::randn({rows, columns}, generator_).div_(std::sqrt(double(columns))));
  }

  static at::Tensor attended(const layer& one, const at::Tensor& x) {
    const auto batch = x.size(0), length = x.size(1);
    const auto parts = at::linear(x, one.attention)
                           .view({batch, length, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const auto mixed =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], std::nullopt, 0, true);
    return at::linear(mixed.transpose(1, 2).reshape({batch, length, width}), one.projection);
  }

  at::Generator generator_;
  std::vector<at::Tensor> parameters_;
  at::Tensor embedding_, positions_, last_norm_;
  std::array<layer, layers> layers_;
};

void train_transformer() {
  auto generator = at::detail::createCPUGenerator(1);
  const transformer network(generator);
  torch::optim::Adam optimizer(network.parameters(), torch::optim::AdamOptions(1e-3));
  std::minstd_rand lengths(1);
  for (int step = 0; step < 30; ++step) {
    const std::int64_t length = 32 + lengths() % (transformer::longest - 31);
    const auto text = at::randint(transformer::tokens, {4, length + 1}, generator, at::kLong);
    optimizer.zero_grad();
    network.loss(text).backward();
    optimizer.step();
  }
}

void play_cartpole() {
  cartpole::learner agent({});
  auto environments = cartpole::make_environments(1, 1);
  for (int episode = 0; episode < 60; ++episode) cartpole::play_round(agent, environments);
}

struct closing_file {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

const std::map<std::string, std::function<void()>>& traced_programs() {
  static const std::map<std::string, std::function<void()>> all = {
      {"transformer", train_transformer}, {"cartpole", play_cartpole}};
  return all;
}

memory_trace trace_of(const std::function<void()>& program) {
  const std::unique_ptr<std::FILE, closing_file> file(std::tmpfile());
  if (!file) throw internal_error("there is no room for a trace: set TMPDIR");
  const auto child = ::fork();
  if (child < 0) throw internal_error("no process can be made for a trace");
  if (child == 0) {
    try {
      c10::SetCPUAllocator(&recorder::instance(), 255);
      program();
      const auto trace = recorder::instance().trace();
      const auto done = std::fwrite(trace.data(), sizeof(memory_event), trace.size(), file.get());
      ::_exit(done == trace.size() && std::fflush(file.get()) == 0 ? 0 : 1);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "while memory was traced: %s\n", failure.what());
      ::_exit(1);
    }
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0)
    throw internal_error("the program whose memory is traced has failed");
  std::fseek(file.get(), 0, SEEK_END);
  memory_trace trace(static_cast<std::size_t>(std::ftell(file.get())) / sizeof(memory_event));
  std::rewind(file.get());
  if (std::fread(trace.data(), sizeof(memory_event), trace.size(), file.get()) != trace.size())
    throw internal_error("a trace cannot be read");
  return trace;
}

}  // namespace troupe::bench
