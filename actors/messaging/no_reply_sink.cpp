#include "troupe/actors/messaging/no_reply_sink.hpp"

#include "troupe/messages/base/log.hpp"

namespace troupe::detail {

namespace {

class no_sink final : public reply_sink {
public:
  void on_value(opened_envelope&) noexcept override {}
  void on_fault(fault&& why) noexcept override {
    log().debug("a one-way call of {} at {} failed: {}", why.function, why.node, why.text);
  }
};

}  // namespace

const std::shared_ptr<reply_sink>& no_reply_sink() {
  // Never destroyed: threads may still call when the program ends.
  static const auto& one = *new std::shared_ptr<reply_sink>(std::make_shared<no_sink>());
  return one;
}

}  // namespace troupe::detail
