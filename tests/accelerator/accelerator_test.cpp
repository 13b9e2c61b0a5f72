#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/conv.h>

#include <future>

#include "tests/accelerator/accelerator.hpp"

namespace troupe::test {

namespace {

using namespace std::chrono_literals;
namespace sim = accelerator;

const c10::impl::VirtualGuardImpl& guard() {
  static const c10::impl::VirtualGuardImpl impl(sim::device_type);
  return impl;
}

at::TensorOptions on(int device) { return at::TensorOptions(sim::device(device)); }

float first(const at::Tensor& t) {
  return *reinterpret_cast<const float*>(sim::host_pointer(t.const_data_ptr()));
}

class AcceleratorTest : public testing::Test {
protected:
  static void SetUpTestSuite() { sim::install(); }
};

TEST_F(AcceleratorTest, names_its_devices) {
  EXPECT_EQ(sim::device(1).str(), "sim:1");
  EXPECT_EQ(c10::Device("sim:3"), sim::device(3));
  EXPECT_EQ(at::empty({2}, on(2)).device(), sim::device(2));
  EXPECT_EQ(guard().deviceCount(), 4);
  EXPECT_THROW(at::empty({2}, on(4)), c10::Error);
}

TEST_F(AcceleratorTest, computes_and_falls_back_to_the_cpu) {
  const auto x = at::arange(6, at::kFloat).reshape({2, 3}).to(sim::device(0));
  const auto before = sim::counted();
  EXPECT_EQ((x + x * 2).sum().item<float>(), 45);
  EXPECT_TRUE(at::equal(x.sum(1).cpu(), at::full({2}, 3.f) + at::arange(2) * 9));
  EXPECT_TRUE(at::equal(x.t().contiguous().cpu(), x.cpu().t()));
  EXPECT_TRUE(at::allclose(at::sin(x).cpu(), at::sin(x.cpu())));
  EXPECT_EQ(sim::counted().device_synchronizations, before.device_synchronizations);
  EXPECT_GT(sim::counted().fallbacks, before.fallbacks);
}

TEST_F(AcceleratorTest, runs_backward_passes_and_convolutions) {
  const auto w = at::ones({3, 1}, on(1)).requires_grad_();
  at::arange(6, at::kFloat).reshape({2, 3}).to(sim::device(1)).matmul(w).sum().backward();
  EXPECT_EQ(w.grad().device(), sim::device(1));
  EXPECT_EQ(w.grad().cpu().flatten()[0].item<float>(), 3);
  const auto kernel = at::ones({2, 1, 3, 3}, on(0)).requires_grad_();
  const auto image = at::ones({1, 1, 5, 5}, on(0)).requires_grad_();
  torch::nn::functional::conv2d(image, kernel).sum().backward();
  EXPECT_EQ(kernel.grad().cpu().flatten()[0].item<float>(), 9);
  EXPECT_EQ(image.grad().cpu()[0][0][2][2].item<float>(), 18);
}

TEST_F(AcceleratorTest, DeathTest_crashes_where_the_host_reads_a_tensor) {
  const auto t = at::zeros({4}, on(0));
  guard().synchronizeStream(guard().getStream(sim::device(0)));
  EXPECT_EXIT(
      {
        volatile float f = *t.const_data_ptr<float>();
        std::_Exit(f == 0);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(AcceleratorTest, shows_old_bytes_to_who_does_not_wait_for_a_stream) {
  const auto t = at::zeros({1 << 10}, on(0));
  const auto stream = guard().getStream(sim::device(0));
  guard().synchronizeStream(stream);
  std::promise<void> go;
  sim::enqueue(stream, [go = go.get_future().share()] { go.wait(); });
  t.fill_(1);
  EXPECT_EQ(first(t), 0);
  const auto side = guard().getStreamFromGlobalPool(sim::device(0), false);
  at::Tensor missed, waited;
  {
    const c10::StreamGuard current(side);
    missed = at::empty_like(t).copy_(t);
    guard().synchronizeStream(side);
  }
  EXPECT_EQ(first(missed), 0);
  go.set_value();
  t.fill_(2);
  c10::Event done(sim::device_type);
  done.record(stream);
  done.block(side);
  {
    const c10::StreamGuard current(side);
    waited = at::empty_like(t).copy_(t);
    guard().synchronizeStream(side);
  }
  EXPECT_EQ(first(waited), 2);
}

TEST_F(AcceleratorTest, copies_as_they_are_asked_to) {
  const sim::slow slow(20ms);
  const auto host = at::ones({8});
  const auto device = at::zeros({8}, on(0));
  guard().synchronizeStream(guard().getStream(sim::device(0)));
  const auto before = sim::counted();
  device.copy_(host, true);
  EXPECT_EQ(first(device), 0);
  const auto back = at::zeros({8}, at::TensorOptions().pinned_memory(true));
  back.copy_(device, true);
  EXPECT_EQ(back[0].item<float>(), 0);
  // The host waits for copies to other memory, whatever they were asked to do.
  const auto pageable = at::zeros({8});
  pageable.copy_(device, true);
  EXPECT_EQ(pageable[0].item<float>(), 1);
  EXPECT_EQ(sim::counted().stream_synchronizations, before.stream_synchronizations);
  EXPECT_EQ(device.cpu()[0].item<float>(), 1);
  EXPECT_EQ(sim::counted().stream_synchronizations, before.stream_synchronizations + 1);
  EXPECT_EQ(sim::counted().copies_to_host, before.copies_to_host + 3);
  EXPECT_EQ(sim::counted().copies_to_device, before.copies_to_device + 1);
  // Between devices the streams of both are in order with the copy.
  device.fill_(3);
  EXPECT_EQ((device.to(sim::device(1)) * 2).cpu()[7].item<float>(), 6);
  EXPECT_EQ(sim::counted().copies_on_device, before.copies_on_device + 1);
}

TEST_F(AcceleratorTest, measures_time_between_events) {
  const auto stream = guard().getStream(sim::device(0));
  c10::Event begin(sim::device_type, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(sim::device_type, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(stream);
  const sim::slow slow(10ms);
  at::zeros({4}, on(0));
  end.record(stream);
  EXPECT_FALSE(end.query());
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GE(begin.elapsedTime(end), 9);
}

TEST_F(AcceleratorTest, gives_freed_memory_to_its_own_stream_at_once) {
  auto t = at::empty({12'345}, on(2));
  const auto* at = t.const_data_ptr();
  t.reset();
  {
    const c10::StreamGuard current(guard().getStreamFromGlobalPool(sim::device(2), false));
    EXPECT_NE(at::empty({12'345}, on(2)).const_data_ptr(), at);
  }
  EXPECT_EQ(at::empty({12'345}, on(2)).const_data_ptr(), at);
}

TEST_F(AcceleratorTest, keeps_memory_for_recorded_streams_and_overwrites_it_for_others) {
  const sim::slow slow(20ms);
  const auto side = guard().getStreamFromGlobalPool(sim::device(3), false);
  for (const bool recorded : {true, false}) {
    auto t = at::ones({54'321}, on(3));
    c10::Event made(sim::device_type);
    made.record(guard().getStream(sim::device(3)));
    made.block(side);
    at::Tensor copy;
    {
      const c10::StreamGuard current(side);
      copy = at::empty({54'321}, on(3));
      sim::enqueue(side, [] {});  // so that freeing comes first
      copy.copy_(t);
    }
    if (recorded) guard().recordDataPtrOnStream(t.storage().data_ptr(), side);
    const auto* at = t.const_data_ptr();
    t.reset();
    EXPECT_EQ(at::empty({54'321}, on(3)).const_data_ptr() == at, !recorded);
    guard().synchronizeStream(side);
    EXPECT_EQ(first(copy) == 1, recorded);
  }
}

TEST_F(AcceleratorTest, wraps_memory_that_others_own) {
  const auto t = at::ones({16}, on(1));
  const auto view =
      at::from_blob(const_cast<void*>(t.const_data_ptr()), {16}, on(1).dtype(at::kFloat));
  EXPECT_EQ(view.sum().item<float>(), 16);
}

TEST_F(AcceleratorTest, is_found_by_shared_objects) {
  using enqueue_type = void (*)(void*, void (*)(void*), void*);
  const auto enqueue = reinterpret_cast<enqueue_type>(dlsym(RTLD_DEFAULT, "troupe_sim_enqueue"));
  ASSERT_NE(enqueue, nullptr);
  const auto stream = guard().getStreamFromGlobalPool(sim::device(1), false);
  int ran = 0;
  enqueue(
      guard().getStreamNativeHandle(stream), [](void* p) { ++*static_cast<int*>(p); }, &ran);
  guard().synchronizeStream(stream);
  EXPECT_EQ(ran, 1);
  const auto t = at::ones({1}, on(1));
  EXPECT_TRUE(troupe_sim_is_device_pointer(t.const_data_ptr()));
  EXPECT_EQ(troupe_sim_device_of(t.const_data_ptr()), 1);
  EXPECT_FALSE(troupe_sim_is_device_pointer(&ran));
  EXPECT_EQ(troupe_sim_host_pointer(&ran), nullptr);
}

}  // namespace

}  // namespace troupe::test
