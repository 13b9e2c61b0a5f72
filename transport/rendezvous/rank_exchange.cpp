#include "troupe/transport/rendezvous/rank_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/base/worker_name.hpp"
#include "troupe/transport/rendezvous/rank0_store.hpp"
#include "troupe/transport/store/file_store.hpp"

namespace troupe::transport {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_address = 64 * 1024;

// The key under which a rank of another job leaves why it was refused.
const std::string stranger = "stranger";

}  // namespace

rank_exchange::rank_exchange(rendezvous_config config, const rendezvous_options& options,
                             std::shared_ptr<store> place)
    : config_(std::move(config)),
      options_(options),
      given_place_(std::move(place)),
      deadline_(deadline_after(options.timeout)),
      host_(this_host()) {
  if (config_.host_id) host_.id = *config_.host_id;
  description_ = {config_.job, config_.world_size, random_id(),
                  fmt::format("rank {} ({})", config_.rank, me()), options.dynamic};
  visit_ = random_id();
}

rendezvous_place rank_exchange::open_place() {
  if (given_place_) return rendezvous_place::in_store(config_, given_place_);
  if (config_.how == rendezvous_config::way::tcp)
    return open_tcp(config_, options_, {{"troupe/0/job", encode(description_)}}, deadline_);
  return rendezvous_place::in_file(config_, deadline_);
}

void rank_exchange::join() {
  auto place = open_place();
  for (std::uint64_t generation = 0; !try_join(place, generation);) {
    if (!place.client) {
      ++generation;
      continue;
    }
    place = {};
    std::this_thread::sleep_for(std::min(10ms, time_left(deadline_)));
    place = open_place();
  }
}

void rank_exchange::decline(const std::string& why) {
  absence_ = fmt::format("{} has invalid options: {}", description_.writer, why);
  join();
}

roster rank_exchange::gather(const address_function& address_of_this_node) {
  roster out;
  learn_members(out);
  learn_addresses(out, address_of_this_node);
  wait_for_all();
  if (const auto& client = session_->place().client)
    client->set_limits(tcp_store::default_response_limit);
  out.session = session_;
  // The store keeps what it needs alive, above all the server on rank 0.
  out.store = std::shared_ptr<store>(session_, session_->user_keys().get());
  return out;
}

void rank_exchange::leave() noexcept {
  if (session_) session_->give_up(time_left(deadline_));
}

// False if this is the rest of an earlier run.
bool rank_exchange::try_join(const rendezvous_place& place, std::uint64_t generation) {
  session_ =
      std::make_shared<rendezvous_session>(place, generation, config_.rank, config_.world_size);
  const bool in_time = time_left(deadline_) > 0ms;
  try {
    // A little longer than the deadline, to report to the others that it has passed.
    if (place.client) place.client->set_limits(tcp_store::default_response_limit, deadline_ + 1s);
    if (!session_->is_over()) {
      agree_on_job();
      if (absence_) {
        be_absent();
        return true;
      }
      if (announce()) return true;
    }
  } catch (const store_error&) {
    // A server that ends before this rank could join was an earlier run's.
    if (!place.client || place.server || !in_time) throw;
  }
  session_.reset();
  if (!in_time)
    throw rendezvous_error(fmt::format(
        "an earlier run of job '{}' is still closing its store at {}; wait for it or end it",
        config_.job, to_string(config_.master)));
  return false;
}

exchange_round rank_exchange::round(const char* name, const char* failing) {
  return {{.place = session_->keys(),
           .rank = config_.rank,
           .world_size = config_.world_size,
           .deadline = deadline_,
           .timeout = options_.timeout,
           .refusals = [this] { return turned_away(); }},
          name,
          failing};
}

// The processes that were refused, for which the ranks may be waiting.
std::string rank_exchange::turned_away() {
  auto out = session_->place().refusals();
  auto& keys = *session_->keys();
  if (!keys.check(std::span(&stranger, 1))) return out;
  if (!out.empty()) out += "; ";
  return out + to_text(keys.get(stranger, 0ms));
}

// A rank of another job leaves, and this one is not affected: at one address two unrelated jobs may
// meet. If ranks are missing in the end, the error mentions it. A rank of this job with other
// settings is one that the others wait for: all of them fail.
void rank_exchange::agree_on_job() {
  const auto theirs =
      decode_job_description(session_->keys()->compare_set("job", {}, encode(description_)));
  if (theirs.job != config_.job) {
    const auto text = fmt::format(
        "rank {} ({}) belongs to job '{}', but {} meets here for job '{}'; set TROUPE_JOB_ID to "
        "the same on every rank, or meet at another address",
        config_.rank, me(), config_.job, theirs.writer, theirs.job);
    session_->keys()->set(stranger, text);
    throw rendezvous_error(text);
  }
  if (theirs.world_size != config_.world_size)
    disagree(fmt::format(
        "rank {} ({}) has a world size of {}, but {} has {}; WORLD_SIZE must be the same "
        "on every rank",
        config_.rank, me(), config_.world_size, theirs.writer, theirs.world_size));
  if (theirs.dynamic != options_.dynamic)
    disagree(fmt::format("{} rank {} ({}) {} nodes that join later, but {} {}", mixed_job_text,
                         config_.rank, me(), options_.dynamic ? "admits" : "does not admit",
                         theirs.writer, theirs.dynamic ? "does" : "does not"));
  nonce_ = theirs.nonce;
}

// Makes the exchange fail for all; a job that is complete already goes on.
void rank_exchange::disagree(const std::string& text) {
  announcements().fail(text);
  throw rendezvous_error(text);
}

// A rank that has read the reason leaves this generation behind, this rank too.
void rank_exchange::be_absent() {
  if (announcements().fail(*absence_) && config_.world_size > 0) session_->joined();
}

// False if this rank was here before and left: this generation is over for it.
bool rank_exchange::announce() {
  const auto incarnation = session_->place().base->add("troupe/incarnations", 1);
  const announcement mine{.name = config_.name.substr(0, 1024),
                          .host = host_.name,
                          .host_id = host_.id,
                          .process = host_.process,
                          .incarnation = static_cast<std::uint64_t>(incarnation),
                          .visit = visit_,
                          .process_namespace = host_.process_namespace};
  const auto there = decode_announcement(announcements().give(encode(mine)));
  if (there.visit == visit_) {
    session_->joined();
    return true;
  }
  if (session_->is_over()) return false;
  const bool ourselves = there.host_id == host_.id && there.process == host_.process &&
                         there.process_namespace == host_.process_namespace;
  const auto text =
      fmt::format("rank {} came twice: {} and {}; {}", config_.rank,
                  describe_process(there.host, there.process), me(),
                  ourselves ? "this process must close its earlier roster first"
                            : "start each rank once, and one job at a time at one address");
  if (!announcements().fail(text)) addresses().fail(text);
  throw rendezvous_error(text);
}

// All ranks see the same announcements, and so reach the same verdict on them.
void rank_exchange::learn_members(roster& out) {
  const auto values = announcements().take();
  std::map<std::string, std::uint32_t> names;
  for (std::uint32_t rank = 0; rank < config_.world_size; ++rank) {
    auto a = decode_announcement(values[rank]);
    if (const auto problem = worker_name_problem(a.name); !problem.empty())
      throw rendezvous_error(fmt::format("Worker name of rank {} {}", rank, problem));
    for (const auto& name : worker_names(a.name))
      if (const auto [first, added] = names.emplace(name, rank); !added)
        throw rendezvous_error(fmt::format(
            "Worker name '{}' is not unique: ranks {} and {} have it", name, first->second, rank));
    out.members.push_back({.rank = rank,
                           .name = std::move(a.name),
                           .address = {},
                           .incarnation = a.incarnation,
                           .host = std::move(a.host),
                           .host_id = std::move(a.host_id),
                           .process = a.process,
                           .process_namespace = a.process_namespace});
  }
  out.rank = config_.rank;
  out.world_size = config_.world_size;
  out.job = config_.job;
  out.job_id = std::max<std::uint64_t>(1, stable_hash(fmt::format("{} {}", nonce_, config_.job)));
  out.secret = session_->place().secret.value();
  out.meets_on_host_alone = !given_place_ && meets_on_this_host_alone(config_);
  count_local(out);
  if (config_.rank == 0) log_secret(config_, session_->place(), out.all_on_one_host);
}

void rank_exchange::count_local(roster& out) const {
  std::uint32_t before = 0;
  std::uint32_t here = 0;
  for (const auto& m : out.members) {
    if (m.host_id != host_.id) continue;
    ++here;
    if (m.rank < config_.rank) ++before;
  }
  out.all_on_one_host = here == config_.world_size;
  out.local_rank = config_.local_rank.value_or(before);
  out.local_world_size = config_.local_world_size.value_or(here);
}

void rank_exchange::learn_addresses(roster& out, const address_function& address_of_this_node) {
  std::vector<std::byte> mine;
  try {
    mine = address_of_this_node(out);
    if (mine.size() > longest_address)
      throw rendezvous_error(fmt::format("the transport's address has {} bytes; {} are possible",
                                         mine.size(), longest_address));
  } catch (const std::exception& e) {
    const auto* ours = dynamic_cast<const error*>(&e);
    const bool options = ours && ours->code() == errc::invalid_argument;
    addresses().fail(fmt::format("rank {} of {} ({}) {}: {}", config_.rank, config_.world_size,
                                 me(), options ? "has invalid options" : "has no transport",
                                 e.what()));
    throw;
  }
  auto all = addresses();
  all.give(mine);
  auto values = all.take();
  for (std::uint32_t rank = 0; rank < config_.world_size; ++rank)
    out.members[rank].address = std::move(values[rank]);
}

// Rank 0 stays until all have read what it serves, so that it may end as soon as it likes.
void rank_exchange::wait_for_all() {
  auto& keys = *session_->keys();
  if (keys.add("arrived", 1) == config_.world_size) keys.set("complete", "");
  if (config_.rank != 0) return;
  const std::string key = "complete";
  try {
    keys.wait(std::span(&key, 1), time_left(deadline_));
  } catch (const store_error&) {
    throw rendezvous_error(fmt::format("all {} ranks came, but one was lost before all had read it",
                                       config_.world_size));
  }
}

}  // namespace troupe::transport
