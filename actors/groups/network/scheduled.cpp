#include "troupe/actors/groups/network/scheduled.hpp"

#include "troupe/actors/groups/network/tensor_bytes.hpp"

namespace troupe::groups::network {

using schedules::block_set;
using schedules::for_each_block;
using schedules::nobody;
using schedules::schedule;
using schedules::step;

block_memory block_memory::divided(std::byte* memory, std::size_t bytes, int blocks,
                                   std::size_t element) {
  block_memory out{memory, {}, element};
  const auto count = bytes / element, parts = static_cast<std::size_t>(blocks);
  for (std::size_t i = 0; i <= parts; ++i) out.bounds.push_back(count * i / parts * element);
  return out;
}

std::size_t stripes_of(std::size_t bytes, std::size_t piece) noexcept {
  return std::max<std::size_t>(1, (bytes + piece - 1) / piece);
}

namespace {

class scheduled_run {
public:
  scheduled_run(collective_run& run, const schedule& plan, const block_memory& data,
                std::size_t stripes,
                function_ref<void(std::byte*, std::span<const std::byte>)> combine)
      : run_(run), plan_(plan), data_(data), combine_(combine), last_(stripes) {}

  void carry_out() {
    const auto& steps = plan_.steps;
    if (!steps.empty())
      for (std::size_t k = 0; k < last_.size(); ++k) send(steps[0], k);
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (std::size_t k = 0; k < last_.size(); ++k) {
        receive(steps[i], k);
        if (i + 1 < steps.size()) send(steps[i + 1], k);
      }
  }

private:
  // What was sent or received last of a stripe, to be sent again as it is.
  struct message {
    block_set blocks;
    packet content;
  };

  // Stripe k of a block.
  std::span<std::byte> place(int block, std::size_t k) const {
    const auto at = static_cast<std::size_t>(block);
    const auto begin = data_.bounds[at];
    const auto count = (data_.bounds[at + 1] - begin) / data_.element;
    const auto cut = [&](std::size_t i) { return count * i / last_.size() * data_.element; };
    return {data_.memory + begin + cut(k), cut(k + 1) - cut(k)};
  }

  std::size_t bytes_of_set(const block_set& set, std::size_t k) const {
    std::size_t out = 0;
    for_each_block(set, plan_.blocks, [&](int block) { out += place(block, k).size(); });
    return out;
  }

  void send(const step& what, std::size_t k) {
    if (what.to == nobody) return;
    auto& last = last_[k];
    if (last.blocks != what.sent || last.blocks.count == 0)
      last = {what.sent, packed(what.sent, k)};
    run_.send(lane::data, what.to, last.content);
  }

  packet packed(const block_set& set, std::size_t k) const {
    if (set.count == 1 && set.bit == 0)
      return packet(std::span<const std::byte>(place(set.first, k)));
    const auto all = byte_buffer(bytes_of_set(set, k));
    auto* to = memory_of(all);
    for_each_block(set, plan_.blocks, [&](int block) {
      const auto from = place(block, k);
      copy_to(to, from);
      to += from.size();
    });
    return all.nbytes() > packet::small_packet ? packet(all) : packet(bytes_of(all));
  }

  void receive(const step& what, std::size_t k) {
    if (what.from == nobody) return;
    auto got = run_.receive(lane::data, what.from, bytes_of_set(what.received, k));
    auto rest = got.bytes();
    for_each_block(what.received, plan_.blocks, [&](int block) {
      const auto here = place(block, k);
      if (what.combines)
        combine_(here.data(), rest.first(here.size()));
      else
        copy_to(here.data(), rest.first(here.size()));
      rest = rest.subspan(here.size());
    });
    last_[k] = what.combines ? message{} : message{what.received, std::move(got)};
  }

  collective_run& run_;
  const schedule& plan_;
  const block_memory& data_;
  const function_ref<void(std::byte*, std::span<const std::byte>)> combine_;
  std::vector<message> last_;  // by stripe
};

}  // namespace

void run_schedule(collective_run& run, const schedule& plan, const block_memory& data,
                  std::size_t stripes,
                  function_ref<void(std::byte* here, std::span<const std::byte> more)> combine) {
  scheduled_run(run, plan, data, stripes, combine).carry_out();
}

}  // namespace troupe::groups::network
