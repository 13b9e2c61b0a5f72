#include "troupe/actors/node/node_protocol.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/actors/node/message_router.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/registry.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/tensor/device_streams.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"

namespace troupe::detail {

namespace {

// The makers of this process, by channel.
auto& makers() {
  static auto* const all = new registry<control_channel, protocol_maker>;
  return *all;
}

}  // namespace

void register_protocol(control_channel channel, protocol_maker make) {
  if (channel < first_free_channel || channel >= max_control_channels)
    throw invalid_argument(
        fmt::format("control channel {} cannot be registered: those from {} to {} can",
                    static_cast<std::uint64_t>(channel),
                    static_cast<std::uint64_t>(first_free_channel), max_control_channels - 1));
  if (!make)
    throw invalid_argument(fmt::format("the protocol of control channel {} is an empty function",
                                       static_cast<std::uint64_t>(channel)));
  if (!makers().add(channel, std::move(make)))
    throw invalid_argument(fmt::format("control channel {} has a protocol already",
                                       static_cast<std::uint64_t>(channel)));
}

void unregister_protocol(control_channel channel) { makers().remove(channel); }

protocol_table::protocol_table(node_core& node) {
  for (const auto& [channel, make] : makers().all()) {
    auto made = make(node);
    if (!made)
      throw invalid_argument(
          fmt::format("the maker of the protocol of control channel {} returned none",
                      static_cast<std::uint64_t>(channel)));
    all_.emplace(channel, std::move(made));
  }
}

protocol_table::~protocol_table() = default;

node_protocol* protocol_table::find(control_channel channel) const noexcept {
  const auto at = all_.find(channel);
  return at == all_.end() ? nullptr : at->second.get();
}

void protocol_table::attach(message_router& router) {
  for (const auto& [channel, one] : all_)
    router.add(channel,
               [to = one.get()](opened_envelope& message, peer& from, engine_unit& /*unit*/) {
                 auto* const tensors = message.tensors(from.devices.usable);
                 if (tensors) hand_to_default(tensors->copies());
                 decoder in(message.body(), tensors, nullptr);
                 to->deliver(in, from);
               });
}

void protocol_table::evict(const peer& whom) noexcept {
  for (const auto& [channel, one] : all_) one->evict(whom);
}

void protocol_table::close() noexcept {
  for (const auto& [channel, one] : all_) one->close();
}

}  // namespace troupe::detail
