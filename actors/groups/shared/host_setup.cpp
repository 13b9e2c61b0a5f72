#include "troupe/actors/groups/shared/host_setup.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>

#include "troupe/actors/groups/backend/collective_rules.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/memory/arena.hpp"
#include "troupe/transport/regions/descriptor_channel.hpp"
#include "troupe/transport/rendezvous/host.hpp"

namespace troupe::groups {

using transport::descriptor_server;
using transport::job_secret;
using transport::region_access;
using transport::region_address;

namespace {

constexpr std::uint32_t protocol_version = 2;
// Of each rank's two: so much that what staged operations write has left the caches when they write
// it again. Of many ranks less.
constexpr std::size_t area_for(int ranks) { return ranks <= 8 ? 2 << 20 : 512 << 10; }

// A card that travels: fixed bytes, and a text behind them.
template <class Fixed>
std::vector<std::byte> card_bytes(const Fixed& fixed, const std::string& text) {
  static_assert(std::is_trivially_copyable_v<Fixed>);
  std::vector<std::byte> out(sizeof fixed + text.size());
  std::memcpy(out.data(), &fixed, sizeof fixed);
  std::memcpy(out.data() + sizeof fixed, text.data(), text.size());
  return out;
}
template <class Fixed>
std::pair<Fixed, std::string> read_card(const std::vector<std::byte>& bytes, std::size_t rank) {
  if (bytes.size() < sizeof(Fixed))
    throw decode_error(fmt::format("rank {} of a group has sent {} bytes about itself, not {}",
                                   rank, bytes.size(), sizeof(Fixed)));
  std::pair<Fixed, std::string> out;
  std::memcpy(static_cast<void*>(&out.first), bytes.data(), sizeof(Fixed));
  out.second.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(Fixed),
                    bytes.size() - sizeof(Fixed));
  return out;
}
template <class Fixed>
std::vector<std::pair<Fixed, std::string>> gather_cards(member_exchange& exchange,
                                                        const Fixed& fixed,
                                                        const std::string& text) {
  std::vector<std::pair<Fixed, std::string>> out;
  for (const auto& bytes : exchange.all_gather(card_bytes(fixed, text)))
    out.push_back(read_card<Fixed>(bytes, out.size()));
  return out;
}

// A process that has been stopped does not answer: looks now and then whether the group has failed.
std::shared_ptr<const transport::mapped_region> fetch_from(const backend_request& request,
                                                           const transport::region_address& where,
                                                           const job_secret& secret,
                                                           clock::time_point deadline) {
  constexpr std::chrono::milliseconds pause(100);  // longer than fetch_region makes before its end
  for (auto patience = std::chrono::milliseconds(250);; patience *= 2) {
    const auto until = std::min(deadline, clock::now() + patience);
    try {
      return transport::fetch_region(where, secret, until, region_access::write);
    } catch (const transport_error&) {
      if (until - clock::now() > pause || until == deadline) throw;
    }
    if (const auto why = request.exchange->failure()) std::rethrow_exception(why);
  }
}

// Can the memory of that process be read?
bool can_read(std::uint64_t process, std::uint64_t address, std::uint64_t expected) {
  std::uint64_t found = ~expected;
  const iovec here{&found, sizeof found};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process.
  const iovec there{reinterpret_cast<void*>(address), sizeof found};
  return process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0) == sizeof found &&
         found == expected;
}

// Once in a process: it is the machine that forbids it.
void say_unreadable(const std::string& group, int rank) {
  static std::once_flag said;
  std::call_once(said, [&] {
    log().info(
        "group '{}': the memory of rank {} cannot be read by all other ranks (process_vm_readv), "
        "so tensors outside of the arena are copied twice; kernel.yama.ptrace_scope, containers "
        "without the capability and process namespaces forbid it",
        group, rank);
  });
}

}  // namespace

// First: who this is, and on which host; the text is the host's id.
struct host_setup::card {
  std::uint32_t version;
  std::uint32_t simulated;  // one thread runs all ranks of a simulation: none may wait for another
  std::uint64_t process;
  std::uint64_t process_namespace;
  std::uint64_t last_cache;  // bytes; rank 0's counts, since ways follow from it
  core_set cores;
  std::array<std::byte, job_secret::size> secret;  // rank 0's is the group's
};

// Second: what this rank offers; the text says why it does not.
struct host_setup::offer {
  std::uint8_t has_control, has_memory, reserved[6];
  region_address control;  // rank 0
  region_address memory;
  // Eight bytes in its process, for others to try whether they can read there.
  std::uint64_t sample_at, sample;
};

// Third: what this rank has mapped; the text says why not all.
struct host_setup::mapped_ranks {
  std::uint64_t control;
  std::uint64_t memories;  // of which ranks, as bits
  std::uint64_t readable;  // the processes of which ranks
};

std::unique_ptr<host_setup> host_setup::make(const backend_request& request, std::string& why_not) {
  const auto rank = request.rank, size = request.size();
  const auto deadline = transport::time_point(deadline_after(request.timeout).time_since_epoch());
  const auto host = transport::this_host();
  const job_secret own_secret;
  card mine{};
  mine.version = protocol_version;
  mine.simulated = troupe::detail::virtual_now != nullptr;
  mine.process = host.process;
  mine.process_namespace = host.process_namespace;
  mine.last_cache = last_cache_bytes();
  mine.cores = usable_cores();
  std::memcpy(mine.secret.data(), own_secret.bytes().data(), mine.secret.size());
  // The rules come after the host's id, which has no line break.
  const auto cards = gather_cards(*request.exchange, mine, host.id + "\n" + rules_of(request));
  if (size > most_ranks) {
    why_not = fmt::format("{} ranks are more than {}", size, most_ranks);
    return nullptr;
  }
  std::vector<card> known;
  std::vector<core_set> cores;
  const auto host_of = [&](std::size_t p) {
    return cards[p].second.substr(0, cards[p].second.find('\n'));
  };
  for (std::size_t p = 0; p < cards.size(); ++p) {
    known.push_back(cards[p].first);
    cores.push_back(cards[p].first.cores);
    if (cards[p].first.version != protocol_version)
      why_not = fmt::format("rank {} has another version of Troupe",
                            request.first_rank + static_cast<int>(p));
    if (cards[p].first.simulated) why_not = "the nodes are simulated";
    if (host_of(p) != host_of(0)) why_not = fmt::format("ranks 0 and {} are on two hosts", p);
  }
  if (!why_not.empty()) return nullptr;

  std::unique_ptr<host_setup> out(new host_setup);
  auto& setup = out->setup_;
  setup.group = request.group;
  setup.rank = rank;
  setup.first_rank = request.first_rank;
  setup.size = size;
  const auto area = area_for(size);
  setup.area = area;
  setup.cores = request.cores_are_busy ? 1 : count_cores(cores);
  setup.ways = collective_ways::measured(size, setup.cores);
  setup.ways.streaming_from = known[0].last_cache;
  const auto line_break = cards[0].second.find('\n');
  if (line_break != std::string::npos) setup.ways.apply(cards[0].second.substr(line_break + 1));

  // Nothing may throw between two exchanges: the others would wait for the second one.
  const auto secret = job_secret::from_bytes(known[0].secret);
  const auto control_bytes = control_segment::size_for(size, area);
  offer offered{};
  std::string reason;
  std::uint64_t sample;  // read by the others before they send the third card
  std::memcpy(&sample, job_secret().bytes().data(), sizeof sample);
  offered.sample_at = reinterpret_cast<std::uintptr_t>(&sample);
  offered.sample = sample;
  std::optional<descriptor_server> control_server, memory_server;
  auto* const arena = transport::installed_arena();
  try {
    if (rank == 0) {
      // It has whole chunks, and no more than it is asked for.
      const auto whole = (control_bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
      auto memory = std::make_unique<transport::arena_memory>(whole, true, reason);
      if (*memory && (memory->size() < whole || !memory->back(0, whole)))
        reason = fmt::format("no {} bytes of memory that can be shared", whole);
      else if (*memory) {
        control_segment::create({memory->base(), control_bytes}, size, area);
        // Its id need only differ from those of other regions.
        std::array<std::byte, 16> id;
        const job_secret random;
        std::memcpy(id.data(), random.bytes().data(), id.size());
        control_server.emplace(memory->read_only_descriptor(), memory->size(), id, secret,
                               memory->writable_descriptor());
        offered.control = control_server->address();
        offered.has_control = 1;
        out->control_ = std::move(memory);
      }
    }
    if (arena) {
      memory_server.emplace(arena->read_only_descriptor(), arena->size(), arena->id(), secret,
                            arena->writable_descriptor());
      offered.memory = memory_server->address();
      offered.has_memory = 1;
    }
  } catch (const std::exception& e) {
    reason = e.what();
  }
  const auto offers = gather_cards(*request.exchange, offered, reason);

  mapped_ranks have{};
  reason.clear();
  setup.memories.resize(static_cast<std::size_t>(size));
  try {
    const auto& control = offers[0].first;
    if (rank == 0) {
      have.control = out->control_ != nullptr;
      if (have.control) setup.control = {out->control_->base(), control_bytes};
    } else if (control.has_control && control.control.size >= control_bytes) {
      const auto region = fetch_from(request, control.control, secret, deadline);
      setup.control = {region->writable(), control_bytes};
      out->mapped_.push_back(region);
      have.control = 1;
    }
    for (std::size_t p = 0; p < offers.size(); ++p) {
      const auto& one = offers[p].first;
      if (!one.has_memory) continue;
      // Ranks of one process have the same arena.
      if (arena && one.memory.id == arena->id()) {
        setup.memories[p] = {arena->at(0), arena->size()};
      } else {
        const auto region = fetch_from(request, one.memory, secret, deadline);
        setup.memories[p] = {region->writable(), region->size()};
        out->mapped_.push_back(region);
      }
      have.memories |= std::uint64_t{1} << p;
    }
  } catch (const std::exception& e) {
    reason = e.what();
  }
  for (std::size_t p = 0; p < offers.size(); ++p)
    // A process of another namespace has another number here.
    if (known[p].process_namespace == mine.process_namespace &&
        can_read(known[p].process, offers[p].first.sample_at, offers[p].first.sample))
      have.readable |= std::uint64_t{1} << p;
  const auto mapped = gather_cards(*request.exchange, have, reason);
  auto by_all = ~std::uint64_t{0}, read_by_all = ~std::uint64_t{0} >> (64 - size);
  for (std::size_t p = 0; p < mapped.size(); ++p) {
    by_all &= mapped[p].first.memories;
    read_by_all &= mapped[p].first.readable;
    if (mapped[p].first.control || !why_not.empty()) continue;
    const auto& because = offers[0].first.has_control ? mapped[p].second : offers[0].second;
    why_not = fmt::format("rank {} cannot map the memory of the group: {}",
                          request.first_rank + static_cast<int>(p), because);
  }
  if (!why_not.empty()) return nullptr;
  for (std::size_t p = 0; p < setup.memories.size(); ++p)
    if ((by_all >> p & 1) == 0) setup.memories[p] = {};
  const auto all = ~std::uint64_t{0} >> (64 - size);
  if (read_by_all == all)
    for (const auto& one : known) setup.readable_processes.push_back(static_cast<int>(one.process));
  else if (rank == 0)
    say_unreadable(request.group, request.first_rank + std::countr_one(read_by_all));
  out->watch_processes(known, rank);
  return out;
}

void host_setup::watch_processes(const std::vector<card>& cards, int rank) {
  const auto& mine = cards[static_cast<std::size_t>(rank)];
  processes_.resize(cards.size());
  for (std::size_t p = 0; p < cards.size(); ++p) {
    // A process of another namespace has another number here.
    if (cards[p].process_namespace != mine.process_namespace || cards[p].process == mine.process)
      continue;
    const auto fd = syscall(SYS_pidfd_open, static_cast<pid_t>(cards[p].process), 0);
    processes_[p] = transport::unique_fd(static_cast<int>(fd));
  }
}

std::uint64_t host_setup::dead() const noexcept {
  std::uint64_t out = 0;
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    if (!processes_[p]) continue;
    pollfd one{processes_[p].get(), POLLIN, 0};
    if (poll(&one, 1, 0) == 1 && (one.revents & POLLIN)) out |= std::uint64_t{1} << p;
  }
  return out;
}

}  // namespace troupe::groups
