#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "memory_internal.hpp"
#include "streams_internal.hpp"

namespace troupe::test::accelerator {

namespace {

using event = std::shared_ptr<recorded>;

std::atomic<bool> fails{false};

class guard final : public c10::impl::DeviceGuardImplInterface {
public:
  c10::DeviceType type() const override { return device_type; }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count; }

  c10::Device getDevice() const override { return device(current_device()); }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.type() == device_type && to.index() < device_count, "no such device: ", to);
    if (to.index() >= 0) set_current_device(to.index());
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override {
    if (to.index() >= 0) set_current_device(to.index());
  }
  c10::Device exchangeDevice(c10::Device to) const override {
    const auto old = getDevice();
    setDevice(to);
    return old;
  }

  c10::Stream getStream(c10::Device of) const override { return current_stream(index(of)); }
  c10::Stream getDefaultStream(c10::Device of) const override {
    return c10::Stream(c10::Stream::DEFAULT, device(index(of)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool urgent) const override {
    return next_of_pool(index(of), urgent);
  }
  c10::Stream getNewStream(c10::Device of, int priority) const override {
    return next_of_pool(index(of), priority < 0);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const auto old = getStream(to.device());
    set_current_stream(to);
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream of) const override { return &thread_of(of); }

  bool queryStream(const c10::Stream& of) const override { return thread_of(of).idle(); }
  void synchronizeStream(const c10::Stream& of) const override {
    ++count().stream_synchronizations;
    thread_of(of).wait();
  }
  void synchronizeDevice(const c10::DeviceIndex of) const override {
    ++count().device_synchronizations;
    finish_device(of);
  }

  void record(void** at, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    auto now = std::make_shared<recorded>();
    if (*at)
      *static_cast<event*>(*at) = now;
    else
      *at = new event(now);
    thread_of(on).add([now] { now->reach(); }, true);
  }
  void block(void* on, const c10::Stream& of) const override {
    ++count().event_blocks;
    if (on) thread_of(of).add([e = *static_cast<event*>(on)] { e->wait(); }, true);
  }
  bool queryEvent(void* of) const override {
    TORCH_CHECK(!fails, "the device has failed");
    return !of || (*static_cast<event*>(of))->reached();
  }
  void synchronizeEvent(void* of) const override {
    ++count().event_synchronizations;
    if (of) (*static_cast<event*>(of))->wait();
  }
  void destroyEvent(void* of, const c10::DeviceIndex) const noexcept override {
    delete static_cast<event*>(of);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "an event was not recorded");
    return std::chrono::duration<double, std::milli>((*static_cast<event*>(to))->time() -
                                                     (*static_cast<event*>(from))->time())
        .count();
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const override {
    ++count().records;
    record_use(data.get_context(), on);
  }

private:
  static int index(c10::Device of) { return of.index() < 0 ? current_device() : of.index(); }
};

}  // namespace

failing::failing() { fails = true; }
failing::~failing() { fails = false; }

void register_guard() { c10::impl::registerDeviceGuard(device_type, new guard); }

}  // namespace troupe::test::accelerator
